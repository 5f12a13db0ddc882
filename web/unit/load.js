// The page's own modules in Node: built as the page is, without a browser.

import path from "node:path";
import { build } from "esbuild";

const SOURCES = path.resolve(import.meta.dirname, "../src");

/** What these modules export, by their places in `src`. All of them share what they import. */
export async function load(...places) {
  const built = await build({
    stdin: { contents: places.map((place) => `export * from "./${place}";`).join("\n"), resolveDir: SOURCES, loader: "ts" },
    bundle: true,
    format: "esm",
    target: "es2022",
    write: false,
    logLevel: "warning",
  });
  return import(`data:text/javascript;base64,${Buffer.from(built.outputFiles[0].text).toString("base64")}`);
}

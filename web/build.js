// Builds the page into a folder: `node build.js [FOLDER]`, `dist` unless told otherwise.
//
// The names of scripts and styles carry a hash of what is in them, so a browser may keep them for
// ever. The same sources give the same bytes. Not here: types (`npm run check`), and who serves it.

import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { build } from "esbuild";

const folder = path.resolve(process.argv[2] ?? "dist");
const here = import.meta.dirname;

const built = await build({
  absWorkingDir: here,
  entryPoints: { main: "src/main.tsx" },
  outdir: folder,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  entryNames: "assets/[name]-[hash]",
  chunkNames: "assets/[name]-[hash]",
  metafile: true,
  write: false,
  logLevel: "warning",
});

await rm(folder, { recursive: true, force: true });
await mkdir(path.join(folder, "assets"), { recursive: true });
for (const file of built.outputFiles) {
  await writeFile(file.path, file.contents);
}

const entry = Object.entries(built.metafile.outputs).find(([, it]) => it.entryPoint === "src/main.tsx");
const named = (file) => "/" + path.relative(folder, path.resolve(here, file)).split(path.sep).join("/");
let page = await readFile(path.join(here, "index.html"), "utf8");
page = page.replace("/main.js", named(entry[0])).replace("/main.css", named(entry[1].cssBundle));
await writeFile(path.join(folder, "index.html"), page);
await writeFile(path.join(folder, "icon.svg"), await readFile(path.join(here, "icon.svg")));

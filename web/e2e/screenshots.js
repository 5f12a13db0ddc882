// Pictures of every view, light and dark, wide and narrow, for the documentation:
// `npm run screenshots`. They are made of sessions that are written here.

import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { demonstrate } from "./demonstration.js";
import { World } from "./world.js";

const FOLDER = path.resolve(import.meta.dirname, "../../docs/web");

const SIZES = { wide: { width: 1600, height: 1000 }, narrow: { width: 400, height: 860 } };

/** A picture of the page as it is, small: the browser itself packs it. With `PICTURES` set, it is
    also there as PNG. */
async function take(page, name) {
  // Where this machine keeps the made-up home is no part of the picture.
  await page.evaluate(
    ([home, shown]) => {
      const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(home, shown);
    },
    [world.home, "/home/dev"],
  );
  const picture = (await page.screenshot()).toString("base64");
  if (process.env.PICTURES) await writeFile(path.join(process.env.PICTURES, `${name}.png`), Buffer.from(picture, "base64"));
  page.packer ??= await page.context().newPage();
  const packed = await page.packer.evaluate(async (data) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const drawn = await createImageBitmap(new Blob([bytes]));
    const canvas = new OffscreenCanvas(drawn.width, drawn.height);
    canvas.getContext("2d").drawImage(drawn, 0, 0);
    const blob = await canvas.convertToBlob({ type: "image/webp", quality: 0.86 });
    return btoa(Array.from(new Uint8Array(await blob.arrayBuffer()), (byte) => String.fromCharCode(byte)).join(""));
  }, picture);
  await writeFile(path.join(FOLDER, `${name}.webp`), Buffer.from(packed, "base64"));
}

const world = await World.open();
try {
  const shown = await demonstrate(world);
  await mkdir(FOLDER, { recursive: true });
  const views = {
    now: "/",
    session: shown.place,
    sessions: "/sessions",
    search: "/search?q=parser",
    feed: "/feed",
    usage: "/usage",
    activity: "/activity",
    health: "/health",
    settings: "/settings",
  };
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await world.page("/", { viewport, colorScheme, reducedMotion: "reduce" });
      for (const [name, to] of Object.entries(views)) {
        // Nothing is pointed at.
        await page.mouse.move(0, viewport.height - 1);
        await page.visit(to);
        if (name === "search") await page.locator(".hit").first().waitFor();
        if (name === "session") {
          await page.locator(".facts", { hasText: "prompts" }).waitFor();
          await page.locator(".entry.tool", { has: page.getByText("Edit", { exact: true }) }).locator("summary").first().click();
          await page.mouse.move(0, viewport.height - 1);
          await page.locator(".talk").evaluate((talk) => (talk.scrollTop = 0));
          await page.settle();
        }
        if (name === "now") await page.locator(".row .subagents").first().waitFor();
        await take(page, `${name}-${size}-${colorScheme}`);
      }
      if (size === "wide") {
        await page.visit("/");
        await page.locator(".row .status").first().hover();
        await page.locator("[role=tooltip]").waitFor();
        await take(page, `evidence-${size}-${colorScheme}`);
        await page.mouse.move(0, 0);
        await page.keyboard.press("Control+k");
        await page.keyboard.type("parser");
        await take(page, `palette-${size}-${colorScheme}`);
      }
      if (page.complaints.length > 0) throw new Error(page.complaints.join("\n"));
      await page.context().close();
    }
  }
} finally {
  await world.close();
}

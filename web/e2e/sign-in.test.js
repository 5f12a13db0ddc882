// One address for ever: what a person has in a browser outlives the daemon, and nothing else gets in.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { Claude, id, until, World } from "./world.js";

/** What another program serves while it has the port: a page that plants a service worker. */
const PLANTED = `<!doctype html><title>planted</title><script>
  localStorage.setItem("planted", "yes");
  navigator.serviceWorker.register("/worker.js").then(() => navigator.serviceWorker.ready).then(() => (document.title = "worker planted"));
</script>`;
const WORKER = `self.addEventListener("install", () => self.skipWaiting());
  self.addEventListener("fetch", (event) => event.respondWith(event.request.mode === "navigate" ? new Response("taken over") : fetch(event.request)));`;

let world;
let talk;

before(async () => {
  world = await World.open(async (made) => {
    talk = new Claude(made, id(1), { project: "parser", at: Date.now() - 60_000 });
    for (let number = 0; number < 20; number++) talk.prompt(`Question ${number}`).answer(`Answer ${number}`);
    await talk.write();
  });
  await world.settled("/api/status", (answer) => answer.items?.length >= 1);
});

after(() => world?.close());

async function restart(meanwhile = async () => {}) {
  await world.stop();
  await meanwhile();
  await world.start();
}

/** Waits until the daemon answers a page that was open all the time. */
const isLetIn = (page) => until(() => page.evaluate(() => fetch("/api/health").then((answer) => answer.ok, () => false)));
const origin = (page) => new URL(page.url()).origin;
const heading = (page, text) => page.locator("h1", { hasText: text }).waitFor();

test("pages, bookmarks and preferences outlive the daemon, in every window", async () => {
  const page = await world.page("/settings");
  // To this address alone: a daemon that came back under another one would have to ask again.
  await page.context().grantPermissions(["notifications"], { origin: origin(page) });
  await page.getByLabel("Dark").check();
  await world.settled("/api/preferences", (all) => all.theme === "dark");
  const bookmark = `${origin(page)}${talk.place}/5`;
  await restart();
  await isLetIn(page);
  const other = await page.context().newPage();
  await other.goto(bookmark);
  await other.getByText("Question 2", { exact: true }).first().waitFor();
  assert.equal(new URL(other.url()).pathname.startsWith(talk.place), true, other.url());
  assert.equal(origin(other), origin(page));
  assert.equal(await other.evaluate(() => Notification.permission), "granted");
  await until(async () => (await other.evaluate(() => document.documentElement.dataset.theme)) === "dark");
  await page.goto(`${origin(page)}/usage`);
  await heading(page, "Usage");
  await page.goBack();
  await heading(page, "Settings");
  await page.goForward();
  await heading(page, "Usage");
  await page.context().close();
  // Another browser of the same person has the same choices.
  const elsewhere = await world.page("/");
  await until(async () => (await elsewhere.evaluate(() => document.documentElement.dataset.theme)) === "dark");
  await elsewhere.context().close();
});

test("a browser that is not signed in is told what to run, and gets to its link", async () => {
  const signedIn = await world.page("/");
  const place = origin(signedIn);
  const context = await world.browser.newContext();
  const page = await context.newPage();
  await page.goto(`${place}/usage`);
  await heading(page, "Sign in to Hansard");
  await page.getByText("hansard web", { exact: true }).waitFor();
  const { login } = JSON.parse(await world.hansard("web", "--json"));
  const tab = await context.newPage();
  await tab.goto(login);
  await heading(tab, "Now");
  await heading(page, "Usage");
  assert.equal(page.url(), `${place}/usage`);
  // The link is of no use to another browser, and does no harm in this one.
  await tab.goto(login);
  await heading(tab, "Now");
  const stranger = await world.browser.newContext();
  const late = await stranger.newPage();
  await late.goto(login);
  await late.getByText("used already").waitFor();
  for (const one of [signedIn.context(), context, stranger]) await one.close();
});

test("the code of a link stays out of the address and of the history", async () => {
  const page = await world.page("/");
  await heading(page, "Now");
  assert.equal(page.url(), `${origin(page)}/`);
  const devtools = await page.context().newCDPSession(page);
  const { entries } = await devtools.send("Page.getNavigationHistory");
  assert.deepEqual(entries.map((entry) => entry.url).filter((url) => /code|login|token/.test(url)), []);
  await page.context().close();
});

test("a link out of the page does not say where it was", async () => {
  const heard = [];
  const site = createServer((request, answer) => {
    heard.push([request.url, request.headers.referer, request.headers.cookie]);
    answer.setHeader("content-type", "text/html").end("<h1>Elsewhere</h1>");
  });
  await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
  await talk.prompt("Where is it?").answer(`[It is elsewhere](http://127.0.0.1:${site.address().port}/there)`).write();
  const page = await world.page(talk.place);
  const [out] = await Promise.all([page.context().waitForEvent("page"), page.getByText("It is elsewhere", { exact: true }).click()]);
  await heading(out, "Elsewhere");
  assert.deepEqual(heard.find(([url]) => url === "/there"), ["/there", undefined, undefined]);
  assert.equal(await out.evaluate(() => document.referrer), "");
  assert.equal(await out.evaluate(() => opener), null);
  await page.context().close();
  site.closeAllConnections();
  await new Promise((resolve) => site.close(resolve));
});

test("a link on another site leads to its message, and a request of that site to nothing", async () => {
  const page = await world.page("/");
  const place = origin(page);
  const links = `<a href="${place}${talk.place}/5">there</a><script>
    fetch("${place}/api/health", { credentials: "include" }).then((answer) => answer.text()).then((text) => (document.title = text), () => (document.title = "refused"));
  </script>`;
  const site = createServer((_, answer) => answer.setHeader("content-type", "text/html").end(links));
  await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
  const visitor = await page.context().newPage();
  await visitor.goto(`http://127.0.0.1:${site.address().port}/`);
  await until(async () => (await visitor.title()) === "refused");
  await visitor.getByText("there").click();
  await visitor.getByText("Question 2", { exact: true }).first().waitFor();
  assert.equal(await visitor.evaluate(() => document.referrer), "");
  await page.context().close();
  await new Promise((resolve) => site.close(resolve));
});

test("what another program stored under the address is gone when the daemon is back", async () => {
  const page = await world.page("/");
  const place = origin(page);
  const heard = [];
  await restart(async () => {
    const squatter = createServer((request, answer) => {
      heard.push(request.headers.cookie ?? "");
      const isWorker = request.url === "/worker.js";
      answer.setHeader("content-type", isWorker ? "text/javascript" : "text/html").end(isWorker ? WORKER : PLANTED);
    });
    await new Promise((resolve) => squatter.listen(Number(new URL(place).port), "127.0.0.1", resolve));
    const victim = await page.context().newPage();
    await victim.goto(`${place}/`);
    await until(async () => (await victim.title()) === "worker planted");
    await victim.close();
    squatter.closeAllConnections();
    await new Promise((resolve) => squatter.close(resolve));
  });
  assert.equal(heard.some((cookie) => cookie.includes("hansard=")), true, "the cookie was sent to it");
  await isLetIn(page);
  const fresh = await page.context().newPage();
  await until(async () => {
    await fresh.goto(`${place}/`);
    return (await fresh.locator("h1", { hasText: "Now" }).count()) > 0;
  });
  assert.equal(await fresh.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length), 0);
  assert.equal(await fresh.evaluate(() => localStorage.getItem("planted")), null);
  await page.context().close();
});

test("signing out ends every browser", async () => {
  const page = await world.page("/");
  await world.hansard("web", "--renew");
  await page.getByText("no longer signed in").waitFor();
  await page.reload();
  await heading(page, "Sign in to Hansard");
  await page.context().close();
});

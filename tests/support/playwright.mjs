// Drives Chromium for tests: a line of JSON in, {code, given}, a line of JSON out, {value} or {error}.
// The code is the body of an async function of open, axe, given and told. Arguments: packages' folder, Chromium.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, executablePath] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { chromium } = require("playwright-core");
const axeSource = require("axe-core").source;
const browser = await chromium.launch({ executablePath });
let context = null, page = null, told = [];

// A new page of a file. `told` are what the page says on its console, its errors, and every request beyond the file.
async function open(file, { width = 1280, height = 900, scheme = "light", javaScriptEnabled = true } = {}) {
  await context?.close();
  told = [];
  context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, javaScriptEnabled, reducedMotion: "reduce" });
  page = await context.newPage();
  const url = pathToFileURL(file).href;
  page.on("console", (message) => told.push(message.text()));
  page.on("pageerror", (error) => told.push(String(error)));
  page.on("request", (request) => { if (request.url().split("#")[0] !== url) told.push(`request ${request.url()}`); });
  page.on("dialog", (dialog) => { told.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  await page.goto(url);
  return page;
}
// Every finding, however small, as "rule: element". It is injected by the debugger, which the page's policy doesn't bind.
async function axe() {
  const session = await context.newCDPSession(page);
  await session.send("Runtime.evaluate", { expression: axeSource });
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations.flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
}
const AsyncFunction = (async () => {}).constructor;
for await (const line of createInterface({ input: process.stdin })) {
  const { code, given } = JSON.parse(line);
  let answer;
  try {
    const run = new AsyncFunction("open", "axe", "given", "told", code);
    answer = { value: (await run(open, axe, given, () => told)) ?? null };
  } catch (error) {
    answer = { error: String(error.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();

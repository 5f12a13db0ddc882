#!/usr/bin/env node
// Starts the program that npm installed for this platform, and ends as the program ends.
"use strict";

const { spawn } = require("node:child_process");

const name = `@hansard/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/hansard`);
} catch {
  console.error(`error: the package \`${name}\` is not installed`);
  console.error("hint: there may be none for this platform, or npm was told to omit optional packages");
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// A terminal interrupts the program itself; the launcher only waits for its end.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => child.kill("SIGTERM"));
child.on("error", (error) => {
  console.error(`error: cannot start \`${program}\`: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) {
    process.exit(code);
  }
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});

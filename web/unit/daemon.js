// What the page takes for a daemon, where there is none: answers wait until they are given, and
// frames come when they are told. It has to be there before anything of the page is loaded.

export class Daemon {
  /** Questions that were asked and are not answered yet, oldest first. */
  asked = [];
  /** What was said over the line, and the line itself. */
  said = [];
  line = null;
  /** What the page does every so often: here it does so when told to. */
  beats = [];

  constructor() {
    const daemon = this;
    globalThis.location = new URL("http://page.localhost/");
    globalThis.document = Object.assign(new EventTarget(), { hidden: false });
    globalThis.setInterval = (beat) => daemon.beats.push(beat);
    globalThis.fetch = (address, { signal } = {}) =>
      new Promise((resolve, reject) => {
        const question = { address, answer: (value, status = 200) => resolve(new Response(JSON.stringify(value), { status })), fail: () => reject(new TypeError("nobody is there")) };
        signal?.addEventListener("abort", () => {
          daemon.asked = daemon.asked.filter((one) => one !== question);
          reject(signal.reason);
        });
        daemon.asked.push(question);
      });
    globalThis.WebSocket = class {
      static CONNECTING = 0;
      static OPEN = 1;
      readyState = 0;
      constructor() {
        daemon.line = this;
      }
      send(text) {
        daemon.said.push(JSON.parse(text));
      }
      close() {
        this.readyState = 3;
        this.onclose?.();
      }
    };
  }

  /** Lets the line be made. */
  open() {
    this.line.readyState = 1;
    this.line.onopen();
  }

  tell(frame) {
    this.line.onmessage({ data: JSON.stringify(frame) });
  }

  /** The oldest question whose address has this in it, once it is asked; it is then answered. */
  async question(part) {
    await settled(() => this.asked.some(({ address }) => address.includes(part)));
    const at = this.asked.findIndex(({ address }) => address.includes(part));
    return this.asked.splice(at, 1)[0];
  }
}

/** Waits until it is so. */
export async function settled(isSo) {
  for (let turn = 0; turn < 2_000; turn++) {
    if (isSo()) return;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  throw new Error(`it did not come: ${isSo}`);
}

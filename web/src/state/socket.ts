// A WebSocket to the daemon that is made again whenever it breaks, for as long as somebody wants it.

/** Milliseconds before the first and at most before any further attempt to connect. */
const RETRY_FIRST_MS = 250;
const RETRY_MAX_MS = 4_000;

/** A connection that lasted so long was a good one: the next attempt is a first one. */
const LASTED_MS = 5_000;

interface Hearing {
  onOpen?: () => void;
  /** Something was said that can be read. */
  onSaid: (said: unknown) => void;
  /** The connection broke, or could not be made; the next attempt follows by itself. */
  onBroken?: () => void;
}

export interface Socket {
  /** Says it, if there is somebody to hear it. */
  say: (asked: object) => void;
  /** Gives up a connection that does not answer, and makes another one. */
  renew: () => void;
  close: () => void;
}

export function keepOpen(path: string, { onOpen, onSaid, onBroken }: Hearing): Socket {
  let socket: WebSocket | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let retryMs = RETRY_FIRST_MS;
  let openedAt = Infinity;
  const open = () => {
    const made = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`);
    socket = made;
    made.onopen = () => {
      openedAt = Date.now();
      onOpen?.();
    };
    made.onmessage = (message: MessageEvent<string>) => {
      if (socket === made) onSaid(parsed(message.data));
    };
    made.onclose = () => socket === made && leave();
  };
  const leave = () => {
    socket = null;
    if (Date.now() - openedAt > LASTED_MS) retryMs = RETRY_FIRST_MS;
    openedAt = Infinity;
    timer = setTimeout(open, retryMs);
    retryMs = Math.min(retryMs * 2, RETRY_MAX_MS);
    onBroken?.();
  };
  const drop = () => {
    const dropped = socket;
    socket = null;
    // One that is being made is let be made first: to break it off is told as a fault.
    if (dropped?.readyState === WebSocket.CONNECTING) dropped.onopen = () => dropped.close();
    else dropped?.close();
  };
  open();
  return {
    say: (asked) => {
      if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(asked));
    },
    renew: () => {
      if (!socket) return;
      drop();
      leave();
    },
    close: () => {
      clearTimeout(timer);
      drop();
    },
  };
}

/** What cannot be read says nothing. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

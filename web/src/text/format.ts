// Numbers, money and times as people read them.

export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 10) return "now";
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return hours < 10 && minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return days < 60 ? `${days} d` : `${Math.floor(days / 30)} months`;
}

/** A stretch of time. */
export function lasting(ms: number): string {
  if (ms <= 0) return "none";
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  // Rounded first: 59.7 s are a minute.
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const COUNT = new Intl.NumberFormat("en");

export function count(value: number): string {
  return COUNT.format(value);
}

/** 950, 9.4k, 12k, 3.1M. */
export function short(value: number): string {
  // What would be a thousand of one is one of the next.
  for (const [from, size, letter] of [[0.9995e9, 1e9, "G"], [0.9995e6, 1e6, "M"], [1e3, 1e3, "k"]] as const) {
    if (value >= from) return `${value < 9.95 * size ? (value / size).toFixed(1) : Math.round(value / size)}${letter}`;
  }
  return String(value);
}

export function money(usd: number | null | undefined): string {
  if (usd === null || usd === undefined) return "–";
  if (usd === 0) return "$0";
  if (usd < 0.01) return "<$0.01";
  return `$${usd < 100 ? usd.toFixed(2) : COUNT.format(Math.round(usd))}`;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });
const FULL = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export const clock = (at: string | number | Date): string => CLOCK.format(new Date(at));
export function day(at: string | number | Date): string {
  const date = new Date(at);
  const year = date.getFullYear();
  return year === new Date().getFullYear() ? DAY.format(date) : `${DAY.format(date)} ${year}`;
}

export const full = (at: string | number | Date): string => FULL.format(new Date(at));

/** A number of things, in words. */
export function several(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** The last part of a path: what people call a project. */
export function projectName(project: string | null | undefined): string {
  if (!project) return "no project";
  const parts = project.replace(/\/+$/, "").split("/");
  return parts[parts.length - 1] || project;
}

/** A model without its date. */
export function modelName(model: string | null | undefined): string {
  return (model ?? "").replace(/-\d{8}$/, "");
}

const AGENT_NAMES: Record<string, string> = {
  claude: "Claude Code",
  codex: "Codex",
  cursor: "Cursor",
  gemini: "Gemini CLI",
  opencode: "OpenCode",
  copilot: "Copilot",
  goose: "Goose",
  qwen: "Qwen Code",
  pi: "pi",
  hansard: "Hansard",
};

export function agentName(provider: string): string {
  return AGENT_NAMES[provider] ?? provider;
}

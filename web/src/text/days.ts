// Days as people count them, from midnight to midnight where they are. Days that the daemon names are
// those of its machine.

const DAY_MS = 86_400_000;

/** Days that are told at most: so many bars can be told apart. */
const DAYS_MAX = 400;

/** When the last so many days began, today among them; `null` for all time. */
export function sinceDay(days: string, now = Date.now()): string | null {
  const number = Number(days);
  if (!Number.isInteger(number) || number < 1) return null;
  const day = new Date(now);
  // Set as a date: a day on which the clocks change is longer or shorter.
  day.setDate(day.getDate() - (number - 1));
  day.setHours(0, 0, 0, 0);
  return day.toISOString();
}

/** A value for each day from the first to the last that has one, also for those that have none; of
    very many days, the newest. */
export function everyDay(values: Map<string, number>, daysMax = DAYS_MAX): Array<{ name: string; value: number }> {
  const days = [...values.keys()].filter((day) => /^\d{4}-\d\d-\d\d$/.test(day)).sort();
  const last = Date.parse(days.at(-1) ?? "");
  const first = Math.max(Date.parse(days[0] ?? ""), last - (daysMax - 1) * DAY_MS);
  const all = [];
  for (let at = first; at <= last; at += DAY_MS) all.push({ name: dayOf(at), value: values.get(dayOf(at)) ?? 0 });
  return all;
}

/** A day that was parsed from its name, which is read as one of UTC. */
function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

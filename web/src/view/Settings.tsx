// What a person can choose for the page, and where the rest is chosen.

import type { Signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { chime } from "../state/attention";
import { badges, notifies, opensTools, showsThinking, sounds, type Theme, theme } from "../state/preferences";

const THEMES: Array<[Theme, string]> = [
  ["auto", "Same as the system"],
  ["light", "Light"],
  ["dark", "Dark"],
];

export function Settings() {
  return (
    <section class="page settings">
      <header class="page-head">
        <h1>Settings</h1>
        <p class="minor">for this page in every browser; the daemon keeps them in the journal's folder</p>
      </header>
      <fieldset class="panel">
        <legend>Appearance</legend>
        <div class="filters" role="radiogroup" aria-label="Theme">
          {THEMES.map(([value, name]) => (
            <label key={value} class="choice">
              <input type="radio" name="theme" checked={theme.value === value} onChange={() => (theme.value = value)} />
              {name}
            </label>
          ))}
        </div>
      </fieldset>
      <fieldset class="panel">
        <legend>When a session needs you</legend>
        <NotificationChoice />
        <Choice of={sounds} label="Play a sound" onTurnOn={chime} />
        <Choice of={badges} label="Show the number in the page title" />
      </fieldset>
      <fieldset class="panel">
        <legend>Sessions</legend>
        <Choice of={showsThinking} label="Show thinking unfolded" />
        <Choice of={opensTools} label="Show tool calls unfolded" />
      </fieldset>
      <section class="panel">
        <h2>Everything else</h2>
        <p>
          What is recorded, where it is kept, hooks and notifications of the desktop belong to the daemon: <code>config.toml</code> in the journal's folder,
          and <code>hansard hooks install</code>. <code>hansard web --renew</code> signs out every browser.
        </p>
      </section>
    </section>
  );
}

function Choice({ of, label, onTurnOn }: { of: Signal<boolean>; label: string; onTurnOn?: () => void }) {
  return (
    <label class="choice">
      <input
        type="checkbox"
        checked={of.value}
        onChange={(event) => {
          of.value = event.currentTarget.checked;
          if (of.value) onTurnOn?.();
        }}
      />
      {label}
    </label>
  );
}

function NotificationChoice() {
  const [isRefused, setRefused] = useState(false);
  const canNotify = typeof Notification !== "undefined";
  const choose = async (wanted: boolean) => {
    if (!wanted) {
      notifies.value = false;
      return;
    }
    const answer = await Notification.requestPermission();
    notifies.value = answer === "granted";
    setRefused(answer !== "granted");
  };
  return (
    <>
      <label class="choice">
        <input type="checkbox" disabled={!canNotify} checked={notifies.value} onChange={(event) => void choose(event.currentTarget.checked)} />
        Show a notification of the browser
      </label>
      {isRefused && <p class="minor">The browser blocks notifications; allow them in its settings for this page.</p>}
      {!canNotify && <p class="minor">This browser has no notifications.</p>}
    </>
  );
}

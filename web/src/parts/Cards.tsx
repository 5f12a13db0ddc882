// Notification cards from the bus. Text is text.

import { cards, dismiss } from "../state/bus";
import { projectName } from "../text/format";

export function Cards() {
  // It is there also while it is empty: only what changes in it is read out.
  return (
    <section class="cards" aria-label="Notifications" aria-live="polite">
      {cards.value.map((card) => (
        <article key={card.key} class="card">
          <span class="icon" aria-hidden="true">
            {card.icon}
          </span>
          <div>
            <h2>
              {card.title}
              {card.badge && <span class="pill">{card.badge}</span>}
              {card.count > 1 && <span class="pill">×{card.count}</span>}
            </h2>
            {card.message && <p dir="auto">{card.message}</p>}
            <p class="minor">
              {card.app}
              {card.facet && ` · ${projectName(card.facet)}`}
              {card.action && (
                <a href={card.action} onClick={() => dismiss(card.key)}>
                  Open
                </a>
              )}
            </p>
          </div>
          {card.isDismissible && (
            <button class="plainly" aria-label={`Dismiss ${card.title}`} onClick={() => dismiss(card.key)}>
              ×
            </button>
          )}
        </article>
      ))}
    </section>
  );
}

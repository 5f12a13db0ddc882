// What the daemon says, by the names people use. Answers are generated from the API's description;
// what goes over a WebSocket has none, so it is written down here.

import type { components } from "./openapi";

type Schemas = components["schemas"];

export type Session = Schemas["Session"];
export type Turn = Schemas["Turn"];
export type Preferences = Schemas["Preferences"];
export type SampleImport = Schemas["SampleImport"];
export type Status = Schemas["Status"];
export type Evidence = Schemas["Evidence"];
export type Approval = Schemas["Approval"];
export type Found = Schemas["Found"];
export type Hit = Schemas["Hit"];
export type Usage = Schemas["Usage"];
export type Budget = Schemas["Budget"];
export type UsageRow = Schemas["UsageRow"];
export type Facets = Schemas["Facets"];
export type Adapter = Schemas["Adapter"];
export type Happening = Schemas["Happening"];
export type Work = Schemas["Work"];
export type WorkGroup = Schemas["WorkGroup"];
export type Health = Schemas["Health"];
export type Page<T> = { items: T[]; next?: string | null };

/** An event as it is recorded; `data` is what its kind carries, and may be anything. */
export interface RecordedEvent {
  id: string;
  session_id: string;
  seq: number;
  kind: string;
  created_at: string;
  provider: string;
  source: string;
  confidence: string;
  turn_id?: string;
  parent_id?: string;
  text?: string;
  data: unknown;
  metadata?: Record<string, unknown>;
  truncated?: boolean;
}

/** What a WebSocket is told. */
export type Frame =
  | { type: "stream-init"; session_id: string | null; position: number; seq: number | null }
  | { type: "stream-event"; position: number; event: RecordedEvent }
  | { type: "stream-status"; session_id: string | null; state: string; position: number; seq: number | null }
  | { type: "lagged"; session_id: string | null; position: number; seq: number | null }
  | { type: "session.board"; statuses: Status[] }
  | { type: "session.status"; status: Status }
  | { type: "session.gone"; session_id: string }
  | { type: "waiting-for-input"; session_id: string; reason: string; since: string; summary: string }
  | { type: "approval-decision"; session_id: string; approval_id: string; decision: string }
  | { type: "refused"; kind: string; message: string };

/** A message of the bus. */
export interface BusMessage {
  tract: string;
  event: string;
  ts?: number;
  [field: string]: unknown;
}

// What kinds of events are called where people read them.

const WORDS: Record<string, string> = {
  "user.prompt": "prompt",
  "assistant.message": "answer",
  "assistant.thinking": "thinking",
  "tool.call": "tool call",
  "tool.result": "output",
  "turn.completed": "turn ended",
  "approval.requested": "asks approval",
  "approval.resolved": "decided",
  "external.input": "question",
  "context.added": "context",
  "session.exited": "exited",
  compaction: "compacted",
  "child.completed": "subagent done",
  "child.failed": "subagent failed",
};

/** A kind that has no word of its own is called what it is. */
export function kindWord(kind: string): string {
  return WORDS[kind] ?? kind.replaceAll(".", " ");
}

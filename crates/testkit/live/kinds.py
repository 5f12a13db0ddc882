"""The agents that a crowd has: which recording each plays, and how its turns are cut."""
import re


class Kind:
    """`marks` has, by kind of action, where the stages of a turn begin. They are looked for one after
    another: each only behind the one before it. A call that says itself that it asks is one of them."""

    def __init__(self, name, marks, resume, scenario="s3_approval_tui", hooks=(), once=None,
                 unseen=(), with_hooks=None, asking=None):
        self.name = name
        self.marks = {channel: [(stage, re.compile(mark)) for stage, mark in stages]
                      for channel, stages in marks.items()}
        # The words that resume a session, with its id.
        self.resume = resume
        self.scenario = scenario
        # The hooks that are installed.
        self.hooks = hooks
        # What is written only when a session begins.
        self.once = re.compile(once) if once else None
        # The states of which no file tells: without hooks there is no evidence of them.
        self.unseen = unseen
        # What is written only where hooks run.
        self.with_hooks = re.compile(with_hooks) if with_hooks else None
        # What a call has only if it asks to be allowed.
        self.asking = re.compile(asking) if asking else None


KINDS = (
    Kind("claude",
         {"line": [("result", '"type":"tool_result"'), ("end", '"type":"assistant"|turn_duration')],
          "write": [("dialog", '"waiting"'), ("granted", '"busy"'), ("end", '"idle"')],
          "hook": [("dialog", "PermissionRequest"), ("result", "PostToolUse"), ("end", "Stop")]},
         resume=["--resume", "{}"], with_hooks="stop_hook_summary",
         hooks=("SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest",
                "Notification", "PostToolUse", "Stop", "SessionEnd")),
    Kind("codex",
         {"line": [("call", "require_escalated"), ("result", "tool_call_output|CommandExecution"),
                   ("end", '"AgentMessage"')],
          "hook": [("dialog", "PermissionRequest"), ("result", "PostToolUse"), ("end", "Stop")]},
         resume=["resume", "{}"], once='"session_meta"',
         asking=r', \\"sandbox_permissions\\": \\"require_escalated\\"',
         hooks=("SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest",
                "PostToolUse", "Interrupt", "Stop", "SessionEnd")),
    Kind("copilot",
         {"line": [("dialog", '"permission.requested"'), ("granted", '"permission.completed"'),
                   ("result", '"tool.execution_complete"'), ("end", '"assistant.message"')],
          "hook": [("dialog", "notification"), ("result", "postToolUse"), ("end", "agentStop")]},
         resume=["--resume={}"], once='"session.start"', with_hooks=r'"type":"hook\.',
         hooks=("sessionStart", "userPromptSubmitted", "preToolUse", "notification", "postToolUse",
                "agentStop", "sessionEnd")),
    Kind("gemini",
         {"line": [("result", '"toolCalls"'), ("end", '"type":"gemini"')],
          "hook": [("dialog", "Notification"), ("result", "AfterTool"), ("end", "AfterAgent")]},
         resume=["--resume", "{}"], unseen=("waiting for approval", "ready for a prompt"),
         hooks=("SessionStart", "BeforeAgent", "BeforeTool", "Notification", "AfterTool",
                "AfterAgent", "SessionEnd")),
    Kind("qwen",
         {"line": [("result", r'qwen-code\.tool_call|"tool_result"'), ("end", '"type":"assistant"')],
          "hook": [("dialog", "PermissionRequest"), ("granted", "PreToolUse"),
                   ("result", "PostToolUse"), ("end", "Stop")]},
         resume=["--resume", "{}"], unseen=("waiting for approval", "ready for a prompt"),
         hooks=("SessionStart", "UserPromptSubmit", "PermissionRequest", "Notification",
                "PreToolUse", "PostToolUse", "Stop", "SessionEnd")),
    Kind("opencode",
         {"rows": [("result", '"status":"completed"'), ("end", '"(?:reason|finish)":"stop"')],
          "hook": [("dialog", r"permission\.asked"), ("granted", r"permission\.replied"),
                   ("end", r'session\.status .*"idle"')]},
         resume=["--session", "{}"], once=r"session\.created", unseen=("waiting for approval",),
         hooks=("session.created", "chat.message", "session.status", "permission.asked",
                "permission.replied", "session.idle")),
    # It has neither approvals nor hooks.
    Kind("pi", {"line": [("result", '"toolResult"'), ("end", '"role":"assistant"')]},
         resume=["--session", "{}"], scenario="s5_compact_tree_tui",
         once='"type":"(?:session|model_change|thinking_level_change)"'),
)

"""Whether Hansard counts what the generator says is there: all of it, session by session."""
import collections
import re

# What is counted of sessions: our word and the generator's.
COUNTS = {"prompts": "user_prompts", "queued": "queued_prompts", "responses": "assistant_messages",
          "tool_calls": "tool_calls", "tool_results": "tool_results", "compactions": "compactions"}
RELATIONS = {"main": "main_sessions", "subagent": "subagent_sessions", "fork": "forked_sessions"}
TOKENS = ("requests", "input", "output", "cache_creation", "cache_read", "reasoning")
ENDINGS = {"in_turn": "tool_call_pending", "aborted": "interrupted"}
# Words that were planted, and the kind of events they were planted in.
NEEDLES = {"needleprompt": "user.prompt", "needlerare": "user.prompt", "針検索": "user.prompt",
           "иголкапоиск": "user.prompt", "needleassist": "assistant.message",
           "get_needleident_value": "assistant.message", "needlethink": "assistant.thinking",
           "needleinput": "tool.call", "needleresult": "tool.result"}


def expected(tree):
    wanted = collections.Counter()
    for provider, agent in tree.manifest["agents"].items():
        for ours, theirs in (COUNTS | RELATIONS).items():
            wanted[f"{provider} {ours}"] += agent[theirs]
        for model, tokens in agent["tokens_by_model"].items():
            for kind in TOKENS:
                wanted[f"{undated(model)} {kind}"] += tokens.get(kind, 0)
    for session in tree.sessions():
        for ours, theirs in COUNTS.items():
            wanted[f"{session['id']} {ours}"] += session.get(theirs, 0)
        ending = session["termination"]
        wanted[f"{session['id']} left {ENDINGS.get(ending, ending)}"] += 1
    needles = tree.needles()
    for word, kind in NEEDLES.items():
        wanted[f"{word} in {kind}"] += needles[word]
    return wanted


def undated(model):
    """Names that differ by a date are one model."""
    return re.sub(r"-20\d{6}$", "", model)


def counted(hansard):
    got = collections.Counter()
    for session in hansard.sessions():
        provider, id = session["provider"], session["provider_session_id"]
        got[f"{provider} {session['relation']}"] += 1
        got[f"{id} left {session['ending']}"] += 1
        for ours in COUNTS:
            got[f"{provider} {ours}"] += session["counts"][ours]
            got[f"{id} {ours}"] += session["counts"][ours]
    _, [usage] = hansard.ask("usage", "model")
    for row in usage["rows"]:
        for kind in TOKENS:
            got[f"{row['key']} {kind}"] += row[kind]
    for word, kind in NEEDLES.items():
        got[f"{word} in {kind}"] += hansard.find_all(word, kind)
    return got


def differences(got, wanted):
    """What differs, in lines that can be read."""
    return [f"{name}: {got[name]}, expected {wanted[name]}"
            for name in sorted(got | wanted) if got[name] != wanted[name]]

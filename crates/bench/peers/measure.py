"""Everything that is measured at one size."""
import contextlib

import account
import follow
import tools
from meter import in_turn, tell
from trees import NEW_LINES, GIANT_MB

ROUNDS = 5
# What takes longer than this is not measured again.
BUDGET_S = 60
# A word that was planted in what tools printed, and how that is called in a table.
NEEDLE = "needleresult"
FOUND = f"`{NEEDLE}` in what tools printed"
# The peers' word for a kind of tokens, and ours.
TOKENS = {"inputTokens": "input", "outputTokens": "output",
          "cacheCreationTokens": "cache_creation", "cacheReadTokens": "cache_read"}
# Bars: by size where a size is named, else for all.
FULL = {"200mb": 1 / 6, "2gb": 1 / 15}
SEARCH = {"2gb": 1 / 50}
MEMORY, NOTHING_NEW, NEW_IN_GIANT, USAGE, FOLLOWED = 1 / 2, 1 / 10, 1 / 50, 1 / 20, 1 / 5


def one_size(tree, giant, built, peers, scratch, report):
    word = tree.size.word
    giant.take_from(tree)
    hansard = tools.Hansard(built / "hansard", tree, scratch)
    least = tools.Least(built / "hansard-bench", tree, scratch)
    agentsview = tools.AgentsView(peers.agentsview, tree, scratch)

    def told(what):
        tell(f"{word}: {what}")

    told("everything, from nothing")
    ours, theirs, floor = in_turn([fresh(hansard, hansard.ingest),
                                   fresh(agentsview, agentsview.sync), least.take_in],
                                  3, BUDGET_S)
    report.race(word, "full ingest with search", "agentsview", ours, theirs, FULL.get(word))
    report.race(word, "full ingest with search", "the floor", ours, floor, None)
    report.memory(word, "full ingest: peak memory", ours.memory, theirs.memory, MEMORY)
    report.grows(word, tree.totals["bytes"] / 1e6, ours.cpu_s, theirs.cpu_s)
    report.disk(word, hansard.bytes(), agentsview.bytes())

    told("nothing new")
    ours, theirs = in_turn([hansard.ingest, agentsview.sync], ROUNDS, BUDGET_S)
    report.race(word, "nothing new", "agentsview", ours, theirs, NOTHING_NEW)

    told("usage by day")
    usage(tree, hansard, peers, scratch, report)

    told("search in what tools printed")
    with agentsview.serving() as server:
        ours, theirs = in_turn([lambda: hansard.search(NEEDLE, "tool.result")[0],
                                lambda: agentsview.search(NEEDLE, server)[0]], ROUNDS, BUDGET_S)
        found = agentsview.find_all(NEEDLE)
    report.race(word, "search, a word in what tools printed", "agentsview", ours, theirs,
                SEARCH.get(word))

    told("counting")
    counts(tree, hansard, agentsview, found, report)

    told(f"{NEW_LINES} new lines in a session of {GIANT_MB} MB")
    giant.put_into(tree)
    try:
        new_lines(word, giant, hansard, agentsview, report)
    finally:
        giant.take_from(tree)

    told("from a line to a follower")
    followed(tree, hansard, agentsview, report)


def followed(tree, hansard, agentsview, report):
    """A line on its way to our WebSocket, and to both event streams of agentsview."""
    word = tree.size.word
    with follow.Scribe(tree) as scribe:
        with hansard.up() as health, contextlib.closing(follow.WebSocket(health)) as socket:
            ours = follow.latency(socket, scribe)
        # It tells of changes at most every ten seconds unless it is told not to wait.
        with agentsview.following("--events-coalesce-interval", "0") as url:
            streams = {"all sessions": "/api/v1/events",
                       "one session": f"/api/v1/sessions/{follow.SESSION}/watch"}
            for name, path in streams.items():
                with contextlib.closing(follow.Events("agentsview", url + path)) as events:
                    theirs = follow.latency(events, scribe)
                report.row(word, f"from a line to who follows {name}", "agentsview", "s",
                           (ours, theirs), FOLLOWED)


def fresh(tool, work):
    def from_nothing():
        tool.forget()
        return work()
    return from_nothing


def usage(tree, hansard, peers, scratch, report):
    word = tree.size.word
    ccusage = tools.Ccusage(peers.ccusage, tree, scratch)
    native = tools.Ccusage(peers.ccusage_native, tree, scratch)
    sides = [tool.daily for tool in (hansard, ccusage, native)]
    ours, theirs, bare = in_turn([lambda side=side: side()[0] for side in sides], ROUNDS, BUDGET_S)
    report.race(word, "usage daily", "ccusage", ours, theirs, USAGE)
    report.race(word, "the same, without its Node wrapper", "ccusage", ours, bare, None)
    report.counted(word, "ccusage", tokens_of_peer(native.daily()[1]))


def counts(tree, hansard, agentsview, found, report):
    word, totals = tree.size.word, tree.totals
    messages = totals["user_prompts"] + totals["queued_prompts"] + totals["assistant_messages"]
    tokens = {f"tokens: {kind}": totals["tokens_total"][kind] for kind in TOKENS.values()}
    there = {"sessions": totals["sessions"], "messages": messages,
             "tool calls": totals["tool_calls"], **tokens,
             FOUND: tree.needles()[NEEDLE]}
    report.counted(word, "there are", there)

    got = account.counted(hansard)
    wrong = account.differences(got, account.expected(tree))
    report.exact(word, wrong)
    sessions = hansard.sessions()
    spent = hansard.daily()[1]

    def sum_of(*names):
        return sum(session["counts"][name] for session in sessions for name in names)

    report.counted(word, "hansard", {
        "sessions": len(sessions), "messages": sum_of("prompts", "queued", "responses"),
        "tool calls": sum_of("tool_calls"),
        **{f"tokens: {kind}": spent[kind] for kind in TOKENS.values()},
        FOUND: got[f"{NEEDLE} in tool.result"]})

    rows = agentsview.counts()
    report.counted(word, "agentsview", {
        "sessions": rows["sessions"], "messages": rows["messages"],
        "tool calls": rows["tool_calls"], **tokens_of_peer(agentsview.tokens()),
        FOUND: found})


def tokens_of_peer(totals):
    return {f"tokens: {ours}": totals[theirs] for theirs, ours in TOKENS.items()}


def new_lines(word, giant, hansard, agentsview, report):
    hansard.ingest()
    agentsview.sync()
    id = giant.session["id"]

    def counts_of_giant():
        [session] = [one for one in hansard.sessions() if one["provider_session_id"] == id]
        return session["counts"]

    before = counts_of_giant()
    expected = {ours: 0 for ours in ("prompts", "tool_calls", "tool_results")}

    def ours_first():
        delta = giant.go_on()
        for ours in expected:
            expected[ours] += delta.get(account.COUNTS[ours], 0)
        return hansard.ingest()

    ours, theirs = in_turn([ours_first, agentsview.sync], 3, BUDGET_S)
    report.race(word, f"{NEW_LINES} new lines in a session of {GIANT_MB} MB", "agentsview", ours,
                theirs, NEW_IN_GIANT)
    after = counts_of_giant()
    wrong = [f"{NEW_LINES} new lines, {name}: {after[name] - before[name]}, expected {count}"
             for name, count in expected.items() if after[name] - before[name] != count]
    report.exact(word, wrong)

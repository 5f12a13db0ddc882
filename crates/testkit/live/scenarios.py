"""What agents and people do to each other, and what is true of the session meanwhile."""
from agents.agent import BESIDE, COMPACTING, FIRST_ANSWER, LEFT, QUEUED, RESUMED
from model import Reply
from stage import LAST_WORDS

# Agents stop a bare `sleep`.
LONG = "python3 -c 'import time; time.sleep(15)'"
# As long as a person needs to look away.
SILENT_S = 8


def slow(words, times):
    """An answer that takes a while. No two sentences are equal: agents stop a model that repeats."""
    # A line each, because some show only whole ones.
    lines = [f"{words}, part {part}." for part in range(1, times)]
    return Reply("\n".join([*lines, f"{words}, {LAST_WORDS}"]), pause_s=0.3)


def started(stage, agent):
    player = stage.play(agent)
    # Not every agent has a session before the first prompt.
    if agent.sessions():
        player.is_now("waiting", "it was started, and has no prompt yet")
    player.leave()


def turn(stage, agent):
    stage.model.say("PEACH", slow("A slow answer about peaches", 20),
                    Reply("This takes a while.", agent.command(LONG)), Reply("The stone is out."))
    player = stage.play(agent, free=True)
    player.ask("Tell me of the PEACH.")
    player.terminal.see("answer about peaches")
    player.speaks(FIRST_ANSWER)
    player.terminal.see(LAST_WORDS)
    player.is_ready("the turn is over")
    player.ask("Open the PEACH.")
    player.terminal.see("takes a while")
    player.works("a command runs in silence", SILENT_S)
    player.terminal.see("stone is out")
    player.is_ready("the silent command and the turn are over")
    player.leave()
    player.is_now("exited", "the person left")


def approval_granted(stage, agent):
    stage.model.say("APPLE", Reply("I need a command.", agent.guarded("touch granted")),
                    Reply("The apple is there."))
    player = stage.play(agent)
    player.ask("Please make an APPLE.")
    player.asks()
    player.answer(*agent.allow)
    player.terminal.see("apple is there")
    player.is_ready("it was granted and the turn is over")
    player.leave()
    player.is_now("exited", "the person left")


def approval_denied(stage, agent):
    stage.model.say("MANGO", Reply("I need a command.", agent.guarded("touch denied")),
                    Reply("Then not."))
    player = stage.play(agent)
    player.ask("Please make a MANGO.")
    player.asks()
    player.answer(*agent.deny(player.terminal))
    player.is_ready("it was denied by choice")
    player.leave()


def approval_escaped(stage, agent):
    stage.model.say("PEAR", Reply("I need a command.", agent.guarded("touch denied")),
                    Reply("Then not."))
    player = stage.play(agent)
    player.ask("Please make a PEAR.")
    player.asks()
    player.answer(*agent.escape)
    player.is_ready("it was denied with Esc")
    player.leave()


def approved_command(stage, agent):
    stage.model.say("QUINCE", Reply("I need a command.", agent.guarded(LONG)),
                    Reply("The quince is done."))
    player = stage.play(agent)
    player.ask("Please cook a QUINCE.")
    player.asks("an approval for a long command is asked for")
    player.answer(*agent.allow)
    player.works("it was granted, and the command takes long")
    player.terminal.see("quince is done")
    player.is_ready("the long command and the turn are over")
    player.leave()


def rule_blocks(stage, agent):
    stage.hansard("rules", "add", "block shell: touch * — a gardener does it")
    stage.model.say("CHIVE", Reply("I need a command.", agent.command("touch blocked")),
                    Reply("Then not."))
    player = stage.play(agent, free=True)
    player.ask("Please make a CHIVE.")
    player.terminal.see("Then not")
    player.is_ready("a rule blocked a call, and the turn is over")
    stage.has_no_file("blocked")
    stage.has_told("a gardener does it")
    player.leave()


def rule_allows(stage, agent):
    stage.hansard("rules", "add", "allow shell: touch *")
    stage.model.say("CHERVIL", Reply("I need a command.", agent.guarded("touch allowed")),
                    Reply("The chervil is there."))
    player = stage.play(agent)
    player.ask("Please make a CHERVIL.")
    player.terminal.see("chervil is there")
    player.is_ready("a rule allowed a call, and the turn is over")
    stage.has_file("allowed")
    player.leave()


def rule_asks(stage, agent):
    stage.hansard("rules", "add", "ask shell: touch * — a gardener looks first")
    stage.model.say("CRESS", Reply("I need a command.", agent.command("touch asked")),
                    Reply("The cress is there."))
    player = stage.play(agent, free=True)
    player.ask("Please make a CRESS.")
    player.asks("a rule asks about a call that is free otherwise")
    player.answer(*agent.allow)
    player.terminal.see("cress is there")
    player.is_ready("it was granted, though a rule asked, and the turn is over")
    stage.has_file("asked")
    player.leave()


def interrupted(stage, agent):
    stage.model.say("PLUM", slow("A slow answer about plums", 60), Reply("I am back."))
    player = stage.play(agent)
    player.ask("Tell me of the PLUM.")
    player.terminal.see("answer about plums")
    player.speaks(FIRST_ANSWER)
    player.stop()
    player.is_ready("it was interrupted with Esc")
    player.leave()


def question(stage, agent):
    stage.model.say("CHERRY", Reply("One thing first.", agent.question("Which colour?", ["Red", "Blue"])),
                    Reply("A fine choice."))
    player = stage.play(agent, free=True)
    agent.before_question(player.terminal)
    player.ask("Paint the CHERRY.")
    player.terminal.see("Which colour")
    player.is_now("waiting", "a question is asked", "Which colour")
    player.terminal.press_until(lambda: player.terminal.shows("fine choice"), "Enter",
                                what="a question")
    player.is_ready("it was answered and the turn is over")
    player.leave()


def plan(stage, agent):
    stage.model.say("FIG", *agent.plan("1. Plant it\n2. Wait"), Reply("The fig grows."))
    player = stage.play(agent, plans=True)
    agent.before_plan(player.terminal)
    player.ask("Plan the FIG.")
    player.terminal.see(agent.plan_dialog)
    player.is_now("waiting_approval", "a plan waits for its approval", agent.plan_dialog)
    player.answer("Enter", dialog=agent.plan_dialog)
    player.terminal.see("fig grows")
    player.is_ready("the plan was approved and the turn is over")
    player.leave()


def queued(stage, agent):
    stage.model.say("DATE", slow("A slow answer about dates", 30),
                    Reply("The second answer about dates."))
    player = stage.play(agent)
    player.ask("Tell me of the DATE.")
    player.terminal.see("answer about dates")
    player.order("And one more DATE.", agent.queue)
    player.speaks(QUEUED)
    player.terminal.see("second answer")
    player.is_ready("both prompts are answered")
    player.leave()
    player.is_now("exited", "the person left")


def compacted(stage, agent):
    stage.model.say("LIME", Reply("The first lime is green."), Reply("The second lime is yellow."))
    player = stage.play(agent)
    player.ask("Tell me of a LIME.")
    player.terminal.see("first lime")
    player.ask("And one more LIME.")
    player.terminal.see("second lime")
    stage.model.sum_up(slow("A summary of the limes", 30))
    player.order(agent.compact)
    shown = agent.compacting or agent.busy
    player.terminal.see(shown)
    player.is_now("running", COMPACTING, shown)
    player.terminal.see_no_more(shown)
    player.is_ready("the session was summed up")
    player.leave()


def renewed(stage, agent):
    stage.model.say("FENNEL", Reply("The fennel is there."))
    stage.model.say("SORREL", Reply("The sorrel is there."))
    player = stage.play(agent)
    player.ask("Bring the FENNEL.")
    player.terminal.see("fennel is there")
    player.is_ready("the turn of a session before another is over")
    before = player.renew()
    player.terminal.see_no_more("fennel is there")
    player.is_now(agent.left, LEFT, of=before)
    player.ask("Bring the SORREL.")
    player.terminal.see("sorrel is there")
    player.is_ready("the turn of a session after another is over")
    player.leave()
    player.is_now("exited", "the person left")


def killed_and_resumed(stage, agent):
    stage.model.say("GRAPE", Reply("This takes a while.", agent.command(LONG)))
    player = stage.play(agent, free=True)
    player.ask("Press the GRAPE.")
    player.terminal.see("takes a while")
    player.works("a command runs")
    player.kill()
    player.is_now("exited", "it was killed with -9")
    stage.model.say("GRAPE", slow("A slow return to grapes", 60))
    player.go_on()
    player.ask("Are you there now.")
    player.terminal.see("return to grapes")
    player.speaks("it was killed and resumed, and answers")
    player.kill()


def resumed(stage, agent):
    stage.model.say("OLIVE", Reply("This takes a while.", agent.command(LONG)))
    player = stage.play(agent, free=True)
    player.ask("Press the OLIVE.")
    player.terminal.see("takes a while")
    player.works("a command runs")
    player.kill()
    player.go_on()
    player.is_now("waiting", RESUMED)
    player.leave()
    player.is_now("exited", "the person left")


def background(stage, agent):
    stage.model.say("MELON", Reply("I start it.", agent.command(LONG, background=True)),
                    Reply("It runs behind us."), Reply("Now it is over."))
    player = stage.play(agent, free=True)
    player.ask("Grow a MELON.")
    player.terminal.see("runs behind us")
    player.is_now("running", "the turn is over, its command runs on")
    player.kill()
    player.is_now("exited", "it was killed with -9")


def background_agent(stage, agent):
    stage.model.say("KIWI", Reply("A helper does it.", agent.helper("Grow the SPROUT.")),
                    Reply("It helps behind us."), Reply("Now it is over."))
    stage.model.say("SPROUT", slow("A slow growth of sprouts", 60))
    player = stage.play(agent, free=True)
    player.ask("Grow a KIWI.")
    player.terminal.see("helps behind us")
    player.is_now("running", "the turn is over, its helper works on")
    player.kill()
    player.is_now("exited", "it was killed with -9")


def two_at_once(stage, agent):
    stage.model.say("LEMON", Reply("I need a command.", agent.guarded("touch lemon")),
                    Reply("The lemon is there."))
    stage.model.say("ORANGE", slow("A slow word on oranges", 160))
    waits = stage.play(agent)
    waits.ask("Squeeze the LEMON.")
    waits.asks("one of two waits for an approval")
    works = stage.play(agent)
    works.ask("Peel the ORANGE.")
    works.terminal.see("word on oranges")
    works.speaks("the other of two works")
    waits.asks("the first still waits")
    works.kill()
    works.is_now("exited", "the one that worked was killed with -9")
    waits.asks("the other still waits")


def killed_beside(stage, agent):
    stage.model.say("BASIL", Reply("This takes a while.", agent.command(LONG)))
    stage.model.say("THYME", slow("A slow word on thyme", 160))
    killed = stage.play(agent, free=True)
    killed.ask("Chop the BASIL.")
    killed.terminal.see("takes a while")
    stays = stage.play(agent, free=True)
    stays.ask("Dry the THYME.")
    stays.terminal.see("word on thyme")
    stays.speaks(BESIDE[0])
    killed.kill()
    killed.is_now("exited", "the other of two was killed with -9")
    stays.speaks(BESIDE[1])


SCENARIOS = (started, turn, approval_granted, approval_denied, approval_escaped, approved_command,
             rule_blocks, rule_allows, rule_asks, interrupted, question, plan, queued, compacted, renewed, killed_and_resumed, resumed,
             background, background_agent, two_at_once, killed_beside)

# Scenarios in which a hook answers.
WITH_HOOKS = (rule_blocks, rule_allows, rule_asks)

# What an agent must have for a scenario.
NEEDS = {rule_allows: "takes_allow", rule_asks: "takes_ask",
         approval_granted: "has_approvals", approval_denied: "has_approvals",
         approval_escaped: "has_approvals", approved_command: "has_approvals",
         two_at_once: "has_approvals", interrupted: "stops_with_escape",
         question: "has_questions", plan: "has_plans", background: "has_background", background_agent: "has_background_agents"}

"""What agents and people do to each other, and what is true of the session meanwhile."""
import time

from model import Reply

# Agents stop a bare `sleep`.
LONG = "python3 -c 'import time; time.sleep(25)'"
SHORT = "python3 -c 'import time; time.sleep(20)'"


def slow(words, times):
    """An answer that takes a while. No two sentences are equal: agents stop a model that repeats."""
    # A line each, because some show only whole ones.
    return Reply("\n".join(f"{words}, part {part}." for part in range(times)), pause_s=0.3)


def approval_granted(stage, agent):
    stage.model.say("APPLE", Reply("I need a command.", agent.guarded("touch granted")),
                    Reply("The apple is there."))
    player = stage.play(agent)
    player.ask("Please make an APPLE.")
    player.terminal.see(agent.dialog)
    player.is_now("waiting_approval", "an approval is asked for")
    player.terminal.press(*agent.allow)
    player.terminal.see("apple is there")
    player.is_now("waiting", "it was granted and the turn is over")
    player.leave()
    player.is_now("exited", "the person left")


def approval_denied(stage, agent):
    stage.model.say("PEAR", Reply("I need a command.", agent.guarded("touch denied")),
                    Reply("Then not."))
    player = stage.play(agent)
    player.ask("Please make a PEAR.")
    player.terminal.see(agent.dialog)
    player.is_now("waiting_approval", "an approval is asked for")
    player.terminal.press("Escape")
    player.terminal.see(agent.ready)
    player.is_now("waiting", "it was denied with Esc")
    player.leave()


def interrupted(stage, agent):
    stage.model.say("PLUM", slow("A slow answer about plums", 40),
                    Reply("I am back."))
    player = stage.play(agent)
    player.ask("Tell me of the PLUM.")
    player.terminal.see("answer about plums")
    player.is_now("running", "an answer is being written")
    player.stop()
    player.is_now("waiting", "it was interrupted with Esc")
    player.leave()


def question(stage, agent):
    stage.model.say("CHERRY", Reply("One thing first.", agent.question("Which colour?", ["Red", "Blue"])),
                    Reply("A fine choice."))
    player = stage.play(agent, free=True)
    agent.before_question(player.terminal)
    player.ask("Paint the CHERRY.")
    player.terminal.see("Which colour")
    player.is_now("waiting", "a question is asked")
    player.terminal.press("Enter")
    player.terminal.see("fine choice")
    player.is_now("waiting", "it was answered and the turn is over")
    player.leave()


def killed_and_resumed(stage, agent):
    stage.model.say("GRAPE", Reply("This takes a while.", agent.command(LONG)))
    player = stage.play(agent, free=True)
    player.ask("Press the GRAPE.")
    player.terminal.see("takes a while")
    player.terminal.see(agent.busy)
    player.is_now("running", "a command runs")
    player.kill()
    player.is_now("exited", "it was killed with -9")
    stage.model.say("GRAPE", slow("A slow return to grapes", 40))
    player.go_on()
    player.ask("Are you there now.")
    player.terminal.see("return to grapes")
    player.is_now("running", "it was resumed and answers")
    player.stop()
    player.leave()


def approved_command(stage, agent):
    stage.model.say("QUINCE", Reply("I need a command.", agent.guarded(LONG)),
                    Reply("The quince is done."))
    player = stage.play(agent)
    player.ask("Please cook a QUINCE.")
    player.terminal.see(agent.dialog)
    player.is_now("waiting_approval", "an approval is asked for")
    player.terminal.press(*agent.allow)
    time.sleep(1)
    player.is_now("running", "it was granted, and the command takes long")
    player.terminal.see("quince is done")
    player.is_now("waiting", "the long command and the turn are over")
    player.leave()


def plan(stage, agent):
    stage.model.say("FIG", Reply("I have a plan.", agent.plan("1. Plant it\n2. Wait")),
                    Reply("The fig grows."))
    player = stage.play(agent, plans=True)
    player.ask("Plan the FIG.")
    player.terminal.see(agent.plan_dialog)
    player.is_now("waiting_approval", "a plan waits for its approval")
    player.terminal.press("Enter")
    player.terminal.see("fig grows")
    player.is_now("waiting", "the plan was approved and the turn is over")
    player.leave()


def queued(stage, agent):
    stage.model.say("DATE", slow("A slow answer about dates", 14),
                    Reply("The second answer about dates."))
    player = stage.play(agent)
    player.ask("Tell me of the DATE.")
    player.terminal.see("answer about dates")
    player.ask("And one more DATE.")
    player.is_now("running", "a prompt was typed while it answers")
    player.terminal.see("second answer")
    player.is_now("waiting", "both prompts are answered")
    player.leave()
    player.is_now("exited", "the person left")


def resumed(stage, agent):
    stage.model.say("OLIVE", Reply("This takes a while.", agent.command(LONG)))
    player = stage.play(agent, free=True)
    player.ask("Press the OLIVE.")
    player.terminal.see("takes a while")
    player.terminal.see(agent.busy)
    player.is_now("running", "a command runs")
    player.kill()
    player.go_on()
    player.is_now("waiting", "it was killed and resumed, without a prompt")
    player.leave()
    player.is_now("exited", "the person left")


def background(stage, agent):
    stage.model.say("MELON", Reply("I start it.", agent.command(SHORT, background=True)),
                    Reply("It runs behind us."), Reply("Now it is over."))
    player = stage.play(agent, free=True)
    player.ask("Grow a MELON.")
    player.terminal.see("runs behind us")
    player.is_now("running", "the turn is over, its command runs on")
    player.kill()


def two_at_once(stage, agent):
    stage.model.say("LEMON", Reply("I need a command.", agent.guarded("touch lemon")),
                    Reply("The lemon is there."))
    stage.model.say("ORANGE", slow("A slow word on oranges", 60))
    waits = stage.play(agent)
    waits.ask("Squeeze the LEMON.")
    waits.terminal.see(agent.dialog)
    waits.is_now("waiting_approval", "one of two waits for an approval")
    works = stage.play(agent)
    works.ask("Peel the ORANGE.")
    works.terminal.see("word on oranges")
    works.is_now("running", "the other of two works")
    waits.is_now("waiting_approval", "the first still waits")
    works.terminal.press("Escape")
    works.leave()
    waits.terminal.press("Escape")
    waits.leave()


SCENARIOS = (approval_granted, approval_denied, approved_command, interrupted, question, plan,
             queued, killed_and_resumed, resumed, background, two_at_once)

# What an agent must have for a scenario.
NEEDS = {interrupted: "stops_with_escape", killed_and_resumed: "stops_with_escape",
         plan: "has_plans", background: "has_background"}

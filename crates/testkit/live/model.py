"""A model that says what it was told to, over loopback: Anthropic's Messages, OpenAI's Responses and
Chat Completions, and Gemini's.

Agents ask more than a person sees (titles, topics); only a request that offers tools and holds the
word of a script is answered from that script, each reply once. A request for a summary of the whole
session gets the summary that was laid out for it, everything else a short text.
"""
import collections
import http.server
import itertools
import json
import re
import threading
import time

PIECE = 24
# How many requests are remembered.
REQUESTS_MAX = 40


class Reply:
    """What the model says next: words, one call, and how long it takes between two pieces."""

    def __init__(self, text="", call=None, pause_s=0.0):
        self.text = text
        self.call = call
        self.pause_s = pause_s


class Call:
    def __init__(self, tool, **arguments):
        self.tool = tool
        self.arguments = arguments


class Model:
    def __init__(self):
        self.scripts = {}
        self.summary = None
        self.requests = collections.deque(maxlen=REQUESTS_MAX)
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def say(self, word, *replies):
        """What requests are answered with that hold this word, in their order."""
        with self.lock:
            self.scripts[word] = list(replies)

    def sum_up(self, reply):
        """What the next request for a summary is answered with."""
        with self.lock:
            self.summary = reply

    def was_asked(self, text):
        """Whether an agent has sent this text."""
        with self.lock:
            return any(text in request for request in self.requests)

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, body, tools):
        text = json.dumps(body)
        with self.lock:
            self.requests.append(text)
            if self.summary and SUMMARY.search(last_words(body)):
                reply, self.summary = self.summary, None
                return reply
            if not tools or ASIDE.search(text_of_last_prompt(body)):
                return Reply("A short title")
            for word, replies in self.scripts.items():
                if word in text and replies:
                    return replies.pop(0)
        return Reply("There is nothing more to say.")

    def name(self, prefix):
        return f"{prefix}_{next(self.numbers):06}"


# What agents say with tools, but beside the talk: for titles, and for what they want to remember.
ASIDE = re.compile(r"User prompt:|managed memory")
# What agents say when they ask for a summary of a session.
SUMMARY = re.compile(r"(?i)(summar|compact|handoff|state_snapshot)")


def last_words(body):
    said = body.get("messages") or body.get("input") or body.get("contents") or [""]
    return json.dumps(said[-1])


def text_of_last_prompt(body):
    """The last thing that was said to the model, other than results of its calls."""
    said = body.get("messages") or body.get("input") or body.get("contents") or []
    prompts = [item for item in said if isinstance(item, dict) and item.get("role") == "user"]
    return json.dumps(prompts[-1]) if prompts else last_words(body)


def handler(model):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_HEAD(self):
            self.whole({})

        def do_GET(self):
            is_package = self.path.startswith("/npm/")
            self.whole({"object": "list", "data": [], "has_more": False}, 404 if is_package else 200)

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            path = self.path.split("?")[0]
            if path.endswith("/count_tokens"):
                self.whole({"input_tokens": 1000})
            elif path.endswith("/messages"):
                self.reply(body, named(body.get("tools") or []), messages_stream, messages_whole)
            elif path.endswith("/responses"):
                self.reply(body, offered(body), responses_stream, responses_whole)
            elif path.endswith("/chat/completions"):
                self.reply(body, body.get("tools") or [], chat_stream, chat_whole)
            elif path.endswith(":countTokens"):
                self.whole({"totalTokens": 1000})
            elif "enerateContent" in path:
                body["stream"] = path.endswith(":streamGenerateContent")
                self.reply(body, body.get("tools") or [], gemini_stream, gemini_whole)
            else:
                self.whole({"error": {"type": "not_found", "message": path}}, 404)

        def reply(self, body, tools, stream, whole):
            reply = model.answer(body, tools)
            pieces = stream(model, body, reply, tools)
            try:
                if body.get("stream"):
                    self.pieces(pieces, reply.pause_s)
                else:
                    pieces = list(pieces)
                    time.sleep(reply.pause_s * len(pieces))
                    self.whole(whole(pieces))
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client was interrupted

        def whole(self, answer, status=200):
            told = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(told)

        def pieces(self, pieces, pause_s):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            for piece in pieces:
                kind = f"event: {piece['type']}\n" if "type" in piece else ""
                self.wfile.write(f"{kind}data: {json.dumps(piece)}\n\n".encode())
                self.wfile.flush()
                time.sleep(pause_s)
            self.wfile.write(b"data: [DONE]\n\n" if self.path.endswith("/completions") else b"")

    return Handler


def named(tools):
    return {tool.get("name") or tool.get("type"): tool for tool in tools}


def offered(body):
    """The tools of a request; newer models get theirs in what is said, in groups."""
    said = body.get("input") if isinstance(body.get("input"), list) else []
    groups = [body.get("tools") or []]
    groups += [item.get("tools") or [] for item in said if item.get("type") == "additional_tools"]
    tools = {}
    for tool in itertools.chain(*groups):
        if tool.get("type") == "namespace":
            for inner in tool.get("tools") or []:
                tools[inner.get("name")] = {**inner, "namespace": tool.get("name")}
        else:
            tools.update(named([tool]))
    return tools


def cut(text):
    return [text[at:at + PIECE] for at in range(0, len(text), PIECE)]


def messages_stream(model, body, reply, _tools):
    usage = {"input_tokens": 1000, "output_tokens": 20, "cache_read_input_tokens": 0,
             "cache_creation_input_tokens": 0}
    yield {"type": "message_start", "message": {
        "id": model.name("msg"), "type": "message", "role": "assistant", "content": [],
        "model": body.get("model"), "stop_reason": None, "stop_sequence": None, "usage": usage}}
    blocks = []
    if reply.text:
        deltas = [{"type": "text_delta", "text": part} for part in cut(reply.text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    if reply.call:
        block = {"type": "tool_use", "id": model.name("toolu"), "name": reply.call.tool, "input": {}}
        given = json.dumps(reply.call.arguments)
        blocks.append((block, [{"type": "input_json_delta", "partial_json": given}]))
    for index, (block, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if reply.call else "end_turn"
    yield {"type": "message_delta", "usage": usage,
           "delta": {"stop_reason": reason, "stop_sequence": None}}
    yield {"type": "message_stop"}


def messages_whole(pieces):
    message = pieces[0]["message"]
    text = "".join(piece["delta"].get("text", "") for piece in pieces
                   if piece["type"] == "content_block_delta")
    return {**message, "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}


def responses_stream(model, body, reply, tools):
    head = {"id": model.name("resp"), "object": "response", "created_at": int(time.time()),
            "status": "in_progress", "model": body.get("model"), "output": []}
    yield {"type": "response.created", "response": head}
    done = []
    if reply.text:
        item = {"type": "message", "id": model.name("msg"), "role": "assistant", "content": []}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        for part in cut(reply.text):
            yield {"type": "response.output_text.delta", "item_id": item["id"], "output_index": 0,
                   "content_index": 0, "delta": part}
        said = {"type": "output_text", "text": reply.text, "annotations": []}
        done.append({**item, "status": "completed", "content": [said]})
        yield {"type": "response.output_item.done", "output_index": 0, "item": done[-1]}
    if reply.call:
        item = {"type": "function_call", "id": model.name("fc"), "call_id": model.name("call"),
                "name": reply.call.tool, "arguments": json.dumps(reply.call.arguments)}
        group = tools.get(reply.call.tool, {}).get("namespace")
        done.append({**item, "namespace": group} if group else item)
        yield {"type": "response.output_item.added", "output_index": len(done) - 1,
               "item": done[-1]}
        yield {"type": "response.output_item.done", "output_index": len(done) - 1,
               "item": done[-1]}
    usage = {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 0},
             "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 0},
             "total_tokens": 1020}
    whole = {**head, "status": "completed", "output": done, "usage": usage}
    yield {"type": "response.completed", "response": whole}


def responses_whole(pieces):
    return pieces[-1]["response"]


def chat_stream(model, body, reply, _tools):
    head = {"id": model.name("chatcmpl"), "object": "chat.completion.chunk",
            "created": int(time.time()), "model": body.get("model")}

    def piece(delta, reason=None):
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield piece({"role": "assistant", "content": ""})
    for part in cut(reply.text):
        yield piece({"content": part})
    if reply.call:
        function = {"name": reply.call.tool, "arguments": json.dumps(reply.call.arguments)}
        yield piece({"tool_calls": [{"index": 0, "id": model.name("call"), "type": "function",
                                     "function": function}]})
    yield piece({}, "tool_calls" if reply.call else "stop")
    usage = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}
    yield {**head, "choices": [], "usage": usage}


def chat_whole(pieces):
    text = "".join(choice["delta"].get("content", "") for piece in pieces
                   for choice in piece["choices"])
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {**pieces[-1], "object": "chat.completion", "choices": [choice]}


def gemini_stream(model, _body, reply, _tools):
    head = {"responseId": model.name("gem"), "usageMetadata": {
        "promptTokenCount": 1000, "candidatesTokenCount": 20, "totalTokenCount": 1020}}

    def piece(parts, **more):
        return {**head, "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, **more}]}

    for part in cut(reply.text):
        yield piece([{"text": part}])
    if reply.call:
        call = {"id": model.name("call"), "name": reply.call.tool, "args": reply.call.arguments}
        yield piece([{"functionCall": call}])
    yield piece([{"text": ""}], finishReason="STOP")


def gemini_whole(pieces):
    parts = [part for piece in pieces for part in piece["candidates"][0]["content"]["parts"]]
    text = "".join(part.get("text", "") for part in parts)
    candidate = {**pieces[-1]["candidates"][0], "content": {"role": "model", "parts": [{"text": text}]}}
    return {**pieces[-1], "candidates": [candidate]}

"""The packages on a loopback address: as files, and as npm asks for them."""
import base64
import hashlib
import http.server
import json
import tarfile
import threading
import urllib.parse


class Server:
    def __init__(self, folder):
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.folder = folder
        self.address = self._server.address = "http://127.0.0.1:%d" % self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        place = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).lstrip("/")
        if place.startswith("files/"):
            # One folder: a name has no slash, and so none that leads out of it.
            path = self.server.folder / place[len("files/"):].replace("/", "")
            return self.reply(path.read_bytes() if path.is_file() else None)
        return self.reply(npm_document(self.server.folder, self.server.address, place))

    def reply(self, content):
        self.send_response(200 if content is not None else 404)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_):
        """Says nothing: the result is printed elsewhere."""


def npm_document(folder, address, name):
    """What a registry says of a package; `None` of one that is not in the folder."""
    for path in sorted(folder.glob("*.tgz")):
        with tarfile.open(path) as packed:
            manifest = json.load(packed.extractfile("package/package.json"))
        if manifest["name"] != name:
            continue
        digest = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
        version = manifest["version"]
        manifest["dist"] = {"tarball": f"{address}/files/{path.name}",
                            "integrity": f"sha512-{digest}"}
        return json.dumps({"name": name, "dist-tags": {"latest": version},
                           "versions": {version: manifest}}).encode()
    return None

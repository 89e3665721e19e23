"""A server over Streamable HTTP whose tools are what a file says at the moment; what it hears goes to another file."""

import http.server
import json
import ssl
import sys

address, port, tools, heard, certificate, key = sys.argv[1:]


def result(method, params):
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "remote", "version": "1"},
        }
    if method == "tools/list":
        with open(tools, encoding="utf-8") as file:
            return {"tools": json.load(file)}
    return {"content": [{"type": "text", "text": "done: " + params.get("name", "")}]}


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, params = message["method"], message.get("params", {})
        with open(heard, "a", encoding="utf-8") as file:
            print(method, params.get("name", ""), file=file)
        if "id" not in message:
            return self.answer(202, b"")
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result(method, params)}
        self.answer(200, json.dumps(answer).encode())

    def do_GET(self):
        if not self.path.endswith("/server-card"):
            return self.answer(405, b"")
        try:
            with open(tools + ".card", "rb") as file:
                self.answer(200, file.read())
        except FileNotFoundError:
            self.answer(404, b"")

    def answer(self, status, body):
        self.send_response(status)
        if body:
            self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer((address, int(port)), Server)
if certificate:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()

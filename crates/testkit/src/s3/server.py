# S3 from memory, on a free port, which is printed. One request at a time, because the server looks
# whether a name is free and takes it in two steps. Ends when its standard input does.
import logging, os, sys, threading
from werkzeug.serving import make_server
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication, MotoRequestHandler, create_backend_app)
logging.getLogger('werkzeug').setLevel(logging.ERROR)
application = DomainDispatcherApplication(create_backend_app)
server = make_server('127.0.0.1', 0, application, request_handler=MotoRequestHandler)
print(server.server_port, flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
server.serve_forever()

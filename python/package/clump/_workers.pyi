"""Types of workers."""

in_worker: bool

class InWorker(BaseException): ...

def dumps(obj: object) -> bytes: ...

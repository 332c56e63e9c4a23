# A file system in user space (FUSE) with some files, which can fall silent: it takes each request from then on, and answers none until it gets a command to.
# Arguments: the directory to mount on, then names and contents in turn; @N stands for N bytes. It ends when its standard input does, and for a test that waits for it
# after a minute.
import ctypes, os, signal, stat, struct, sys, threading

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, FORGETS = (
    1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 28, 29, 36, 42)
ENOENT, ENOSYS = 2, 38
place, texts = sys.argv[1], sys.argv[2:]
names = [name.encode() for name in texts[::2]]
contents = [b'x' * int(text[1:]) if text.startswith('@') else text.encode() for text in texts[1::2]]
is_silent, unanswered = False, []
device = os.open('/dev/fuse', os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = b'fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other' % (device, os.getuid(), os.getgid())
NOSUID_NODEV = 6
if libc.mount(b'silent', place.encode(), b'fuse', NOSUID_NODEV, options) != 0:
    print('mount:', os.strerror(ctypes.get_errno()), flush=True)
    sys.exit(0)

def attributes(node):
    size, mode = (0, stat.S_IFDIR | 0o755) if node == 1 else (len(contents[node - 2]), stat.S_IFREG | 0o755)
    return struct.pack('<6Q10I', node, size, 1, 10**9, 10**9, 10**9, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

def answer(operation, node, body):
    if operation == INIT:
        return 0, struct.pack('<4I2H2I2H8I', 7, 31, 65536, 0, 8, 8, 65536, 1, 1, 0, *[0] * 8)
    if operation == LOOKUP:
        name = body.rstrip(b'\0')
        if name not in names:
            return ENOENT, b''
        found = names.index(name) + 2
        return 0, struct.pack('<4Q2I', found, 0, 0, 0, 0, 0) + attributes(found)
    if operation == GETATTR:
        return 0, struct.pack('<Q2I', 0, 0, 0) + attributes(node)
    if operation in (OPEN, OPENDIR):
        return 0, struct.pack('<Q2I', 0, 0, 0)
    if operation == READ:
        offset, bytes_max = struct.unpack_from('<QI', body, 8)
        return 0, contents[node - 2][offset:offset + bytes_max]
    if operation == STATFS:
        return 0, bytes(80)
    if operation in (RELEASE, RELEASEDIR, FLUSH, READDIR):
        return 0, b''
    return ENOSYS, b''

def reply(request):
    _, operation, unique, node = struct.unpack_from('<IIQQ', request)
    error, body = answer(operation, node, request[40:])
    os.write(device, struct.pack('<IiQ', 16 + len(body), -error, unique) + body)

def serve():
    while True:
        try:
            request = os.read(device, 1 << 17)
        except OSError:
            return
        _, operation, unique, node = struct.unpack_from('<IIQQ', request)
        if operation in (FORGET, FORGETS, INTERRUPT):
            continue
        with lock:
            if is_silent:
                unanswered.append(request)
                print('asked', flush=True)
                continue
        reply(request)

def end(*_):
    DETACH = 2
    libc.umount2(place.encode(), DETACH)
    # Ends every request that waits.
    os._exit(0)

signal.signal(signal.SIGALRM, end)
signal.alarm(60)
lock = threading.Lock()
threading.Thread(target=serve, daemon=True).start()
print('mounted', flush=True)
for command in sys.stdin:
    with lock:
        is_silent = command == 'silent\n'
        waiting = [] if is_silent else unanswered[:]
        del unanswered[:len(waiting)]
    for request in waiting:
        reply(request)
    print(command.strip(), flush=True)
end()

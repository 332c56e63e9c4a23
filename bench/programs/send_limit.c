/* send_limit: how fast can bytes be generated and sent? The upper bound for the bandwidth of membufdemo.

       send_limit [port [block size]]        127.0.0.1, port 0: a free one; prints "listening N"; ends on SIGTERM

   GET /anything?M+any+R sends the bytes of membufdemo: M MiB in blocks of R bytes. It fills one buffer with memset(3) and sends
   it with send(2), with a thread for each connection; it parses only the query, and logs nothing. Keep-alive, sequential
   requests. Block size: the amount that is filled and sent at once. */
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "order.h"

/* The fastest size measured, with 2 MiB of cache per processor. Ratios to it: 64k 0.63, 128k 0.70, 256k 0.91, 512k
   0.94, 1M 0.93 to 1.03, 2M 0.9. A small block wakes the reader more often, a large one has left the cache when it is sent. */
#define BLOCK_DEFAULT (768 * 1024)
#define BLOCK_MAX (64 * 1024 * 1024)
#define REQUEST_MAX 16384

static size_t block_bytes = BLOCK_DEFAULT;

struct client {
    int socket;
    char *block;
    char request[REQUEST_MAX + 1];
    size_t held; /* bytes in `request` */
};

static int send_all(int to, const char *from, size_t bytes, int flags)
{
    while (bytes > 0) {
        ssize_t sent = send(to, from, bytes, flags);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return -1;
        from += sent;
        bytes -= (size_t)sent;
    }
    return 0;
}

static int send_text(int to, const char *text)
{
    return send_all(to, text, strlen(text), 0);
}

/* Returns the bytes of the next request's head, including the empty line; -1 if the client has left, or the head is too long. */
static ssize_t receive_head(struct client *client)
{
    for (;;) {
        client->request[client->held] = '\0';
        const char *end = strstr(client->request, "\r\n\r\n");
        if (end) return end + 4 - client->request;
        if (client->held == REQUEST_MAX) return -1;
        ssize_t got = recv(client->socket, client->request + client->held, REQUEST_MAX - client->held, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return -1;
        client->held += (size_t)got;
    }
}

static int send_pattern(const struct client *client, uint64_t bytes, struct pattern *pattern)
{
    char head[256];
    int length = snprintf(head, sizeof head,
                          "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %" PRIu64 "\r\n"
                          "X-mrs: %" PRIu64 "\r\nX-mbuf: NULL 0\r\n\r\n",
                          bytes, pattern->record);
    if (send_all(client->socket, head, (size_t)length, MSG_MORE)) return -1;
    while (bytes > 0) {
        size_t block = bytes < block_bytes ? bytes : block_bytes;
        fill(pattern, client->block, block);
        if (send_all(client->socket, client->block, block, 0)) return -1;
        bytes -= block;
    }
    return 0;
}

/* Returns 0 if the connection may continue. */
static int answer(struct client *client)
{
    char target[1024] = "";
    if (sscanf(client->request, "GET %1023s HTTP/1.", target) != 1)
        return send_text(client->socket, "HTTP/1.1 405 GET only\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), -1;
    const char *query = strchr(target, '?');
    uint64_t bytes;
    struct pattern pattern;
    if (order_pattern(query ? query + 1 : "", &bytes, &pattern))
        return send_text(client->socket, "HTTP/1.1 400 Bad query\r\nContent-Length: 0\r\n\r\n");
    return send_pattern(client, bytes, &pattern);
}

static void *serve(void *of)
{
    struct client *client = of;
    client->block = malloc(block_bytes);
    ssize_t head;
    while (client->block && (head = receive_head(client)) >= 0 && answer(client) == 0) {
        client->held -= (size_t)head;
        memmove(client->request, client->request + head, client->held);
    }
    close(client->socket);
    free(client->block);
    free(client);
    return NULL;
}

/* Opens the listening socket and prints its port; the system chooses one for port 0. Returns -1 with errno. */
static int listen_at(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) ||
        bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, SOMAXCONN) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        return -1;
    printf("listening %d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

/* Starts a thread for the next connection; -1 if that fails. */
static int serve_next(int listener)
{
    int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0) return errno == EINTR || errno == ECONNABORTED ? 0 : -1;
    struct client *client = calloc(1, sizeof *client);
    pthread_t thread;
    if (!client) return -1;
    client->socket = connection;
    if ((errno = pthread_create(&thread, NULL, serve, client))) return -1;
    return pthread_detach(thread), 0;
}

int main(int count, char **words)
{
    uint64_t port = 0, block = 0;
    if (count > 3 || (count > 1 && query_number(words[1], 0, UINT16_MAX, &port) != NUMBER_GOOD) ||
        (count > 2 && (query_number(words[2], 1, BLOCK_MAX, &block) != NUMBER_GOOD || block == 0))) {
        fprintf(stderr, "usage: send_limit [port [block size, 1 to 64M]]\n");
        return 2;
    }
    if (block) block_bytes = block;
    signal(SIGPIPE, SIG_IGN);
    int listener = listen_at((uint16_t)port);
    while (listener >= 0 && serve_next(listener) == 0) continue;
    perror("send_limit");
    return EXIT_FAILURE;
}

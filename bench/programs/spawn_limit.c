/* spawn_limit: how often can a program be started, read to end-of-file, and reaped? The upper bound for CGI.

       spawn_limit PROGRAM CONCURRENCY SECONDS        prints "spawns_per_second N"

   Each start does the minimum of any CGI server: a pipe, vfork(2), the pipe as descriptor 1, execve(2) with the variables
   of a request for ?0, read(2) to end-of-file, waitpid(2). CONCURRENCY starts run at a time, distributed to one thread per
   processor, each of which uses poll(2). If a start fails or prints nothing, the program exits with a message.

   Alternatives, measured with 4 processors, as the ratio to this program with 1, 10 and 64 at a time: posix_spawn(3) instead of
   vfork 0.97, 0.96, 0.95; a thread for each start, without poll, 1.00, 0.94, 0.95; both 0.97, 0.86, 0.87; processes instead of
   threads 0.99, 1.01, 1.00. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONCURRENCY_MAX 1024
#define WORKERS_MAX 64
#define SECONDS_MAX 3600

static char *const variables[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin", "GATEWAY_INTERFACE=CGI/1.1", "SERVER_SOFTWARE=spawn_limit", "SERVER_NAME=127.0.0.1",
    "SERVER_ADDR=127.0.0.1", "SERVER_PORT=8080", "SERVER_PROTOCOL=HTTP/1.1", "REMOTE_ADDR=127.0.0.1", "REMOTE_PORT=40000",
    "REQUEST_METHOD=GET", "REQUEST_SCHEME=http", "REQUEST_URI=/cgi-bin/cgiplustest?0", "SCRIPT_NAME=/cgi-bin/cgiplustest",
    "SCRIPT_FILENAME=/srv/www/cgi-bin/cgiplustest", "DOCUMENT_ROOT=/srv/www/htdocs", "QUERY_STRING=0",
    "HTTP_HOST=127.0.0.1:8080", "HTTP_USER_AGENT=spawn_limit", "HTTP_ACCEPT=*/*", NULL,
};

static char *program;
static double deadline;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void fail(const char *what)
{
    fprintf(stderr, "spawn_limit: %s: %s\n", program, what);
    exit(EXIT_FAILURE);
}

/* Starts the program with `output` as descriptor 1; it inherits 0 and 2. After vfork the child may do nothing else. */
static pid_t start(int output)
{
    char *const words[] = {program, NULL};
    pid_t child = vfork();
    if (child == 0) {
        if (dup2(output, STDOUT_FILENO) >= 0) execve(program, words, variables);
        _exit(127);
    }
    return child;
}

/* A thread and its running programs. */
struct worker {
    pthread_t thread;
    size_t running;
    unsigned long ended;
    struct run {
        pid_t child;
        size_t bytes; /* of output so far */
    } runs[CONCURRENCY_MAX];
    struct pollfd outputs[CONCURRENCY_MAX];
};

static struct worker workers[WORKERS_MAX];

static void begin(struct worker *worker, size_t at)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) fail(strerror(errno));
    worker->runs[at] = (struct run){.child = start(ends[1])};
    if (worker->runs[at].child < 0) fail(strerror(errno));
    close(ends[1]);
    worker->outputs[at] = (struct pollfd){.fd = ends[0], .events = POLLIN};
}

/* Reaps a program whose output has ended. */
static void end(struct worker *worker, size_t at)
{
    int status = 0;
    close(worker->outputs[at].fd);
    worker->outputs[at].fd = -1;
    while (waitpid(worker->runs[at].child, &status, 0) < 0)
        if (errno != EINTR) fail(strerror(errno));
    if (status != 0) fail("ended with a status other than 0");
    if (worker->runs[at].bytes == 0) fail("printed nothing");
    worker->ended++;
}

/* Reads output; at end-of-file the next program starts. */
static void go_on(struct worker *worker, size_t at)
{
    char buffer[65536];
    ssize_t got = read(worker->outputs[at].fd, buffer, sizeof buffer);
    if (got > 0) worker->runs[at].bytes += (size_t)got;
    if (got > 0 || (got < 0 && errno == EINTR)) return;
    end(worker, at);
    if (now() < deadline)
        begin(worker, at);
    else
        worker->running--;
}

static void *work(void *of)
{
    struct worker *worker = of;
    size_t share = worker->running;
    for (size_t at = 0; at < share; at++) begin(worker, at);
    while (worker->running > 0) {
        if (share == 1) /* no other program to wait for */
            worker->outputs[0].revents = POLLIN;
        else if (poll(worker->outputs, share, -1) < 0 && errno != EINTR)
            fail(strerror(errno));
        for (size_t at = 0; at < share; at++)
            if (worker->outputs[at].fd >= 0 && worker->outputs[at].revents) go_on(worker, at);
    }
    return NULL;
}

/* Counts programs that have ended by the deadline, plus those that were running then. */
static unsigned long work_in_threads(size_t concurrency, size_t threads)
{
    unsigned long ended = 0;
    for (size_t i = 0; i < threads; i++) {
        workers[i].running = concurrency / threads + (i < concurrency % threads);
        if ((errno = pthread_create(&workers[i].thread, NULL, work, &workers[i]))) fail(strerror(errno));
    }
    for (size_t i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        ended += workers[i].ended;
    }
    return ended;
}

static size_t thread_count(size_t concurrency)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t most = processors < 1 ? 1 : processors > WORKERS_MAX ? WORKERS_MAX : (size_t)processors;
    return concurrency < most ? concurrency : most;
}

static void stdin_from_null(void)
{
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0) fail("/dev/null");
    if (null != STDIN_FILENO) close(null);
}

int main(int count, char **words)
{
    long concurrency = count == 4 ? strtol(words[2], NULL, 10) : 0;
    double seconds = count == 4 ? strtod(words[3], NULL) : 0;
    if (concurrency < 1 || concurrency > CONCURRENCY_MAX || !(seconds > 0 && seconds <= SECONDS_MAX)) {
        fprintf(stderr, "usage: spawn_limit PROGRAM CONCURRENCY SECONDS\n");
        return 2;
    }
    program = words[1];
    stdin_from_null();
    double begun = now();
    deadline = begun + seconds;
    unsigned long ended = work_in_threads((size_t)concurrency, thread_count((size_t)concurrency));
    printf("spawns_per_second %.1f\n", (double)ended / (now() - begun));
    return 0;
}

/* main.c: the program sluice-php: PHP as an engine of Sluice (mode = "rte", engine = "php").

   Here: options, descriptors, the start and the end of PHP, the loop of requests. engine.h lists the other files. */
#include "engine.h"

#include "zend_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATUS_USAGE 64

struct engine engine;

void engine_report(const char *format, ...)
{
    char text[1024] = "sluice-php: ";
    size_t prefix = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text + prefix, sizeof text - prefix - 1, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    size_t end = prefix + (size_t)length < sizeof text - 1 ? prefix + (size_t)length : sizeof text - 2;
    text[end] = '\n';
    ssize_t ignored = write(STDERR_FILENO, text, end + 1);
    (void)ignored;
}

static const char *value_of(const char *option, const char *name)
{
    size_t length = strlen(name);
    return strncmp(option, name, length) == 0 && option[length] == '=' ? option + length + 1 : NULL;
}

static bool read_option(const char *option)
{
    const char *value;
    if ((value = value_of(option, "--app")) && *value) engine.app = value;
    else if ((value = value_of(option, "--fresh")) && strcmp(value, "fork") == 0) engine.forks = true;
    else if ((value = value_of(option, "--php-value"))) return ini_add(value, false);
    else if ((value = value_of(option, "--php-admin-value"))) return ini_add(value, true);
    else return false;
    return true;
}

static bool read_options(int count, char **arguments)
{
    for (int i = 1; i < count; i++) {
        if (read_option(arguments[i])) continue;
        engine_report("unknown or malformed option %s", arguments[i]);
        engine_report("known are --app=FILE, --fresh=fork, --php-value=NAME=VALUE, --php-admin-value=NAME=VALUE");
        return false;
    }
    if (!getenv("CGIPLUSEOF") || fcntl(3, F_GETFD) < 0) {
        engine_report("this program is started by the server sluice (mode = \"rte\"), not by hand");
        return false;
    }
    return true;
}

static int copy_of(int descriptor)
{
    /* From 10 on: scripts may have fixed ideas of the numbers below. */
    return fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
}

/* Body and mailbox move to descriptors that child processes do not inherit. A child of the script that reads its standard input gets
   end-of-file instead of the next request's body, and what one writes goes to the log instead of into a reply. */
static bool move_descriptors(void)
{
    engine.body = copy_of(STDIN_FILENO);
    engine.mailbox = copy_of(STDOUT_FILENO);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (engine.body < 0 || engine.mailbox < 0 || nothing < 0) return false;
    if (dup2(nothing, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return false;
    close(nothing);
    fcntl(3, F_SETFD, FD_CLOEXEC);
    fcntl(4, F_SETFD, FD_CLOEXEC);
    return true;
}

static char *own_path(void)
{
    static char path[MAXPATHLEN];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    return length > 0 ? path : NULL;
}

static bool start_php(void)
{
    /* The app may be named relative to the directory in which the engine is started. */
    if (engine.app && *engine.app != '/') {
        char *whole = realpath(engine.app, NULL);
        if (whole) engine.app = whole;
    }
    signal(SIGPIPE, SIG_IGN); /* a server that is gone is EPIPE */
    uploads_open(); /* before PHP looks which handlers there are */
#ifdef ZEND_SIGNALS
    zend_signal_startup();
#endif
    sluice_sapi.executable_location = own_path();
    sluice_sapi.ini_entries = NULL;
    sapi_startup(&sluice_sapi);
    sluice_sapi.ini_entries = ini_entries(); /* sapi_startup() has cleared it */
    sapi_module.ini_entries = sluice_sapi.ini_entries;
    if (sluice_sapi.startup(&sluice_sapi) == FAILURE) return false;
    sapi_module.name = "sluice"; /* sapi.c says why it was another */
    ini_lock_admin_values();
    ini_report_unknown();
    request_open();
    isolate_open();
    fields_open();
    stdin_open();
    return true;
}

static int serve(void)
{
    int status;
    while ((status = records_next()) > 0) request_run();
    return status < 0;
}

int main(int count, char **arguments)
{
    if (!read_options(count, arguments)) return STATUS_USAGE;
    if (!move_descriptors()) {
        engine_report("the descriptors cannot be copied: %s", strerror(errno));
        return 1;
    }
    children_open();
    output_open();
    records_open();
    if (!start_php()) {
        engine_report("PHP does not start");
        return 1;
    }
    int status = engine.app ? worker_run() : serve();
    php_module_shutdown();
    sapi_shutdown();
    return status;
}

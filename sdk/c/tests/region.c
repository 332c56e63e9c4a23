/* The parts of an output region (sluice_region.h) without a server: the memory is a file of this program, and callouts are answered here. Prints the
   line of the check that fails, and nothing otherwise. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sluice_region.h"

#define KIB ((size_t)1024)
#define CHECK(condition)                            \
    do {                                            \
        if (!(condition)) {                         \
            printf("line %d: %s\n", __LINE__, #condition); \
            exit(1);                                \
        }                                           \
    } while (0)

static char text[1024 * 1024];

/* What the other side answers, and what it was asked. */
static struct {
    int code;
    const char *answer; /* NULL: what BUFFER-FREE wants */
    char asked[SLUICE_REGION_LINE_BYTES];
} peer;

static int callout(void *context, const char *line, char *answer, size_t size)
{
    CHECK(context == &peer);
    snprintf(peer.asked, sizeof peer.asked, "%s", line);
    snprintf(answer, size, "%s", peer.answer ? peer.answer : line + strlen("BUFFER-FREE: "));
    return peer.code;
}

static int wait_for(struct sluice_region *region, int code, const char *answer)
{
    peer.code = code;
    peer.answer = answer;
    peer.asked[0] = '\0';
    return sluice_region_wait(region, callout, &peer);
}

static int memory(size_t bytes, int seals)
{
    int file = memfd_create("region", MFD_ALLOW_SEALING);
    CHECK(file >= 0 && ftruncate(file, (off_t)bytes) == 0 && fcntl(file, F_ADD_SEALS, seals) == 0);
    return file;
}

static void announce(struct sluice_region *region, const char *expected)
{
    char line[SLUICE_REGION_LINE_BYTES];
    CHECK(sluice_region_announce(region, line) == strlen(expected) && strcmp(line, expected) == 0);
}

static void fill(struct sluice_region *region, size_t bytes)
{
    CHECK(sluice_region_put(region, text, bytes) == bytes);
}

static void what_is_refused(int file)
{
    struct sluice_region region;
    int unsealed = memory(512 * KIB, F_SEAL_GROW), null = open("/dev/null", O_RDWR);
    CHECK(!sluice_region_open(&region, -1, "0 524288"));
    CHECK(!sluice_region_open(&region, file, NULL));
    CHECK(!sluice_region_open(&region, file, "0"));
    CHECK(!sluice_region_open(&region, file, "a 524288"));
    CHECK(!sluice_region_open(&region, file, "0 -1"));
    CHECK(!sluice_region_open(&region, file, "524288 524289"));
    CHECK(!sluice_region_open(&region, unsealed, "0 524288"));
    CHECK(!sluice_region_open(&region, null, "0 524288"));
    CHECK(sluice_region_room(&region) == 0 && sluice_region_put(&region, text, 1) == 0 && wait_for(&region, 200, NULL) == 0 && !*peer.asked);
    announce(&region, "");
}

static void halves(int file)
{
    struct sluice_region region;
    CHECK(sluice_region_open(&region, file, "0 524288") && sluice_region_room(&region) == 128 * KIB);
    CHECK(sluice_region_put(&region, text, sizeof text) == 128 * KIB && sluice_region_room(&region) == 0);
    CHECK(wait_for(&region, 200, NULL) == -1 && errno == EINVAL && !*peer.asked && region.used == 128 * KIB);
    announce(&region, "!BUFFER-REGION: 131072");
    announce(&region, "");
    for (int i = 0; i < 2; i++) fill(&region, 64 * KIB);
    announce(&region, "!BUFFER-REGION: 131072 131072");
    fill(&region, 128 * KIB);
    announce(&region, "!BUFFER-REGION: 131072 262144");
    fill(&region, 100 * KIB);
    announce(&region, "!BUFFER-REGION: 102400 393216");
    CHECK(sluice_region_room(&region) == 28 * KIB);
    CHECK(wait_for(&region, 200, NULL) == 1 && strcmp(peer.asked, "BUFFER-FREE: 262144 0") == 0);
    for (int i = 0; i < 2; i++) {
        fill(&region, 128 * KIB);
        announce(&region, i ? "!BUFFER-REGION: 131072 131072" : "!BUFFER-REGION: 131072");
    }
    CHECK(sluice_region_room(&region) == 0);
    CHECK(wait_for(&region, 200, NULL) == 1 && strcmp(peer.asked, "BUFFER-FREE: 262144 262144") == 0);
    fill(&region, 1);
    announce(&region, "!BUFFER-REGION: 1 262144");
    CHECK(memcmp(region.at, text, 256 * KIB) == 0);
    CHECK(wait_for(&region, 200, "1 0") == 0 && !region.at && sluice_region_room(&region) == 0);
}

static void answers(int file)
{
    static const struct {
        int code;
        const char *answer;
    } others[] = {{410, NULL}, {-1, ""}, {200, ""}, {200, "OK"}, {200, "262144 00"}};
    struct sluice_region region;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        CHECK(sluice_region_open(&region, file, "0 524288"));
        CHECK(wait_for(&region, others[i].code, others[i].answer) == 0 && !region.at);
    }
}

static void small_parts(int file)
{
    char line[SLUICE_REGION_LINE_BYTES];
    struct sluice_region region;
    CHECK(sluice_region_open(&region, file, "0 524288"));
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 32; i++) {
            fill(&region, 10);
            sluice_region_announce(&region, line);
        }
        CHECK(sluice_region_room(&region) == 0 && sluice_region_put(&region, text, 10) == 0);
        CHECK(wait_for(&region, 200, NULL) == 1);
    }
}

static void an_older_server(void)
{
    struct sluice_region region;
    CHECK(sluice_region_open(&region, memory(256 * KIB, F_SEAL_SHRINK), "131072 131072"));
    fill(&region, 128 * KIB);
    announce(&region, "!BUFFER-REGION: 131072");
    CHECK(!region.at && sluice_region_room(&region) == 0 && wait_for(&region, 200, NULL) == 0 && !*peer.asked);
    CHECK(sluice_region_open(&region, -1, "131072 131072") && memcmp(region.at, text, 128 * KIB) == 0);
}

int main(void)
{
    int file = memory(1024 * KIB, F_SEAL_SHRINK | F_SEAL_GROW);
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 7 + i / 256);
    what_is_refused(file);
    halves(file);
    answers(file);
    small_parts(file);
    an_older_server();
    return 0;
}

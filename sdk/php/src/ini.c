/* ini.c: settings of PHP beside php.ini: --php-value=, --php-admin-value= and the files of user_ini.filename (.user.ini).

   php.ini and its directory are those of Debian's embed SAPI: /etc/php/8.2/embed. libphp finds them; PHPRC and PHP_INI_SCAN_DIR change that. */
#include "engine.h"

#include "php_ini.h"
#include "zend_ini.h"
#include "zend_smart_str.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- The options ---- */

#define ADMIN_VALUES_MAX 256

static struct {
    char *text; /* php.ini syntax: PHP reads it after its files, so it comes first */
    size_t length;
    char *admin[ADMIN_VALUES_MAX];
    size_t admin_count;
} given;

static void append(const char *text, size_t length)
{
    given.text = realloc(given.text, given.length + length + 1);
    if (!given.text) abort();
    memcpy(given.text + given.length, text, length);
    given.length += length;
    given.text[given.length] = '\0';
}

/* A value in quotes, in which PHP finds no names of constants and variables. */
static bool append_value(const char *value)
{
    if (strpbrk(value, "\n\r")) return false;
    if (!strchr(value, '\'')) {
        append("'", 1);
        append(value, strlen(value));
        append("'", 1);
        return true;
    }
    if (strstr(value, "${")) return false;
    append("\"", 1);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\') append("\\", 1);
        append(value, 1);
    }
    append("\"", 1);
    return true;
}

bool ini_add(const char *assignment, bool is_admin)
{
    size_t length = strcspn(assignment, "=");
    if (length == 0 || assignment[length] != '=') return false;
    if (strspn(assignment, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != length) return false;
    if (is_admin) {
        if (given.admin_count == ADMIN_VALUES_MAX) return false;
        given.admin[given.admin_count++] = strndup(assignment, length);
    }
    append(assignment, length);
    append("=", 1);
    if (!append_value(assignment + length + 1)) return false;
    append("\n", 1);
    return true;
}

char *ini_entries(void)
{
    return given.text;
}

/* A setting that neither PHP nor an extension has is a misspelling, or its extension is not installed; PHP itself says nothing. Extensions are
   no settings after the start. */
void ini_report_unknown(void)
{
    for (const char *line = given.text; line && *line; line = strchr(line, '\n') + 1) {
        size_t length = strcspn(line, "=");
        bool is_extension = (length == 9 && memcmp(line, "extension", 9) == 0) || (length == 14 && memcmp(line, "zend_extension", 14) == 0);
        if (!is_extension && !zend_hash_str_exists(EG(ini_directives), line, length))
            engine_report("php_value or php_admin_value: PHP has no setting %.*s", (int)length, line);
    }
}

/* Neither ini_set() nor .user.ini may change these. */
void ini_lock_admin_values(void)
{
    for (size_t i = 0; i < given.admin_count; i++) {
        zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), given.admin[i], strlen(given.admin[i]));
        if (entry) entry->modifiable = ZEND_INI_SYSTEM;
    }
}

/* ---- .user.ini ---- */

/* The settings for one directory: those of the files from DOCUMENT_ROOT down to it. */
struct directory {
    HashTable settings;
    time_t expires;
};

#define DIRECTORIES_MAX 1024

static HashTable directories;
static bool has_directories;

static void free_directory(zval *value)
{
    struct directory *directory = Z_PTR_P(value);
    zend_hash_destroy(&directory->settings);
    free(directory);
}

/* Reads the file of each directory from `root_length` on; without a common root only that of the directory itself. */
static void read_files(HashTable *into, const char *path, size_t length, size_t root_length)
{
    char directory[MAXPATHLEN];
    memcpy(directory, path, length + 1);
    if (root_length == 0 || root_length > length) {
        php_parse_user_ini_file(directory, PG(user_ini_filename), into);
        return;
    }
    for (size_t at = root_length; at <= length; at++) {
        if (at < length && directory[at] != '/') continue;
        char saved = directory[at];
        directory[at] = '\0';
        php_parse_user_ini_file(directory, PG(user_ini_filename), into);
        directory[at] = saved;
    }
}

/* The length of DOCUMENT_ROOT if `path` is below it, otherwise 0. */
static size_t root_of(const char *path)
{
    const char *root = records_value(V_DOCUMENT_ROOT);
    size_t length = root ? strlen(root) : 0;
    while (length > 0 && root[length - 1] == '/') length--;
    return length > 0 && strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == '\0') ? length : 0;
}

/* A section or a list in such a file is no setting, and php_ini_activate_config() takes every value for a text. */
static void drop_what_is_no_text(HashTable *settings)
{
    zend_string *name;
    zval *value;
    ZEND_HASH_FOREACH_STR_KEY_VAL(settings, name, value) {
        if (Z_TYPE_P(value) == IS_STRING && name) continue;
        if (name) engine_report("%s: %s is no setting", PG(user_ini_filename), ZSTR_VAL(name));
        zend_hash_del_bucket(settings, (Bucket *)value); /* the value is the first part of its bucket */
    } ZEND_HASH_FOREACH_END();
}

static struct directory *directory_of(const char *path, size_t length)
{
    if (!has_directories) {
        zend_hash_init(&directories, 8, NULL, free_directory, 1);
        has_directories = true;
    }
    time_t now = time(NULL);
    struct directory *directory = zend_hash_str_find_ptr(&directories, path, length);
    if (directory && now < directory->expires) return directory;
    if (zend_hash_num_elements(&directories) >= DIRECTORIES_MAX) zend_hash_clean(&directories);
    directory = malloc(sizeof *directory);
    if (!directory) return NULL;
    zend_hash_init(&directory->settings, 8, NULL, config_zval_dtor, 1);
    read_files(&directory->settings, path, length, root_of(path));
    drop_what_is_no_text(&directory->settings);
    directory->expires = now + PG(user_ini_cache_ttl);
    zend_hash_str_update_ptr(&directories, path, length, directory);
    return directory;
}

void ini_activate_user_files(void)
{
    const char *script = SG(request_info).path_translated;
    const char *slash = script ? strrchr(script, '/') : NULL;
    if (!slash || slash == script || (size_t)(slash - script) >= MAXPATHLEN) return;
    char path[MAXPATHLEN];
    size_t length = (size_t)(slash - script);
    memcpy(path, script, length);
    path[length] = '\0';
    if (php_ini_has_per_dir_config()) php_ini_activate_per_dir_config(path, length);
    const char *host = records_variable("SERVER_NAME");
    if (php_ini_has_per_host_config() && host) php_ini_activate_per_host_config(host, strlen(host));
    if (!PG(user_ini_filename) || !*PG(user_ini_filename)) return;
    struct directory *directory = directory_of(path, length);
    if (directory && zend_hash_num_elements(&directory->settings) > 0)
        php_ini_activate_config(&directory->settings, PHP_INI_PERDIR, PHP_INI_STAGE_HTACCESS);
}

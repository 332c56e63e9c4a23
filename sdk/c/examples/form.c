/* form: shows a form, and what was sent with it: two fields and any number of files. */
#include <stdio.h>
#include <string.h>

#include "sluice.h"

static void show_form(void)
{
    sluice_respond(NULL); /* text/html; charset=utf-8 */
    printf("<!DOCTYPE html>\n<title>Form</title>\n"
           "<form method=\"post\" enctype=\"multipart/form-data\">\n"
           "<p><label>Name <input name=\"name\"></label>\n"
           "<p><label>Note <textarea name=\"note\"></textarea></label>\n"
           "<p><label>Files <input type=\"file\" name=\"file\" multiple></label>\n"
           "<p><button>Send</button>\n</form>\n");
}

/* The first bytes of an upload, as text. */
static void show_content(const struct sluice_upload *upload)
{
    char line[61];
    FILE *file = fopen(upload->path, "r");
    if (file && fgets(line, sizeof line, file)) printf(", begins with <code>%s</code>", sluice_escape_html(line));
    if (file) fclose(file);
}

static void show_answers(void)
{
    sluice_respond(NULL);
    printf("<!DOCTYPE html>\n<title>Sent</title>\n<dl>\n");
    for (size_t i = 0; i < (size_t)sluice_parameter_count(); i++) {
        const char *name, *value = sluice_parameter_at(i, &name, NULL);
        printf("<dt>%s<dd>%s\n", sluice_escape_html(name), sluice_escape_html(value));
    }
    const struct sluice_upload *upload;
    for (size_t i = 0; (upload = sluice_uploads("file", i)); i++) {
        printf("<dt>%s<dd>%llu bytes of %s", sluice_escape_html(upload->file_name), (unsigned long long)upload->bytes, sluice_escape_html(upload->type));
        show_content(upload);
        printf("\n");
    }
    printf("</dl>\n");
}

int main(void)
{
    sluice_upload_limit(100 << 20);
    while (sluice_accept()) {
        const char *method = sluice_variable("REQUEST_METHOD");
        if (!method || strcmp(method, "POST") != 0) show_form();
        else if (sluice_parameter_count() < 0) sluice_fail(0, "The form could not be read."); /* too large, or malformed */
        else show_answers();
    }
}

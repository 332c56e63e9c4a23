// without_soname: copies a shared library without its SONAME, for the linker alone. A program that is linked with the copy needs the file by its
// name, libphp8.2.so. The SONAME of Debian's libphp is libphp.so for every version of PHP, so ldconfig(8) would choose the version at run time, and
// the engine would get another ABI than that of the headers.
//   usage: without_soname LIBRARY COPY
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refuse(const char *path, const char *why)
{
    fprintf(stderr, "without_soname: %s: %s\n", path, why);
    exit(1);
}

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        refuse(path, "cannot be read");
    long end = ftell(file);
    char *bytes = end > 0 ? malloc((size_t)end) : NULL;
    rewind(file);
    if (!bytes || fread(bytes, 1, (size_t)end, file) != (size_t)end)
        refuse(path, "cannot be read");
    fclose(file);
    *size = (size_t)end;
    return bytes;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        refuse("usage", "without_soname LIBRARY COPY");
    size_t size;
    char *bytes = read_file(argv[1], &size);
    ElfW(Ehdr) head;
    if (size < sizeof head || memcmp(bytes, ELFMAG, SELFMAG) != 0)
        refuse(argv[1], "is not an ELF file");
    memcpy(&head, bytes, sizeof head);
    for (unsigned i = 0; i < head.e_phnum; i++) {
        ElfW(Phdr) part;
        size_t at = head.e_phoff + i * sizeof part;
        if (at > size || size - at < sizeof part)
            refuse(argv[1], "is truncated");
        memcpy(&part, bytes + at, sizeof part);
        if (part.p_type != PT_DYNAMIC)
            continue;
        if (part.p_offset > size || size - part.p_offset < part.p_filesz)
            refuse(argv[1], "is truncated");
        for (size_t entry = 0; entry + sizeof(ElfW(Dyn)) <= part.p_filesz; entry += sizeof(ElfW(Dyn))) {
            ElfW(Dyn) dynamic;
            memcpy(&dynamic, bytes + part.p_offset + entry, sizeof dynamic);
            if (dynamic.d_tag != DT_SONAME)
                continue;
            // The linker ignores an entry with this tag.
            dynamic.d_tag = DT_DEBUG;
            memcpy(bytes + part.p_offset + entry, &dynamic, sizeof dynamic);
        }
    }
    FILE *copy = fopen(argv[2], "wb");
    if (!copy || fwrite(bytes, 1, size, copy) != size || fclose(copy) != 0)
        refuse(argv[2], "cannot be written");
    free(bytes);
    return 0;
}

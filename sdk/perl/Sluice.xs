/* Sluice.xs: the native part of the Perl library and engine: package Sluice::Native.

   The ring of the memory buffer (ring.c of sdk/c), and what the engine needs of the interpreter: the variables of a compiled subroutine,
   the buffer of STDOUT, the environment. Everything has a replacement in Perl, except pad_put (Sluice/Engine/Lexicals.pm). */
#define PERL_NO_GET_CONTEXT
#include "EXTERN.h"
#include "perl.h"
#include "XSUB.h"
#include "perliol.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sluice_ring.h"

/* Used by ring.c: writes all bytes to descriptor 1; what STDOUT had in its buffer has been flushed before. */
int sluice_mailbox_write(const void *bytes, size_t count)
{
    const char *from = bytes;
    while (count > 0) {
        ssize_t done = write(STDOUT_FILENO, from, count);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return -1;
        from += done;
        count -= (size_t)done;
    }
    return 0;
}

static struct sluice_ring *ring; /* at most one in a process */

/* The buffer of a standard handle, if it is an ordinary one (layers unix, perlio). */
static PerlIOBuf *buffer_of(pTHX_ const char *name)
{
    GV *gv = gv_fetchpv(name, 0, SVt_PVIO);
    IO *io = gv ? GvIO(gv) : NULL;
    PerlIO *file = !io ? NULL : IoOFP(io) ? IoOFP(io) : IoIFP(io);
    if (!PerlIOValid(file) || PerlIOBase(file)->tab != &PerlIO_perlio) return NULL;
    return PerlIOSelf(file, PerlIOBuf);
}

static PerlIOBuf *buffer_of_stdout(pTHX)
{
    return buffer_of(aTHX_ "main::STDOUT");
}

/* Whether a standard handle is what the engine left: not tied, its own descriptor, layers unix and perlio, bytes. */
static int is_usual(pTHX_ const char *name, int descriptor)
{
    GV *gv = gv_fetchpv(name, 0, SVt_PVIO);
    IO *io = gv ? GvIO(gv) : NULL;
    PerlIO *file = io ? IoIFP(io) : NULL, *next;
    if (!PerlIOValid(file) || SvTIED_mg((SV *)io, PERL_MAGIC_tiedscalar) || PerlIO_fileno(file) != descriptor) return 0;
    if (PerlIOBase(file)->tab != &PerlIO_perlio || (PerlIOBase(file)->flags & (PERLIO_F_UTF8 | PERLIO_F_CRLF))) return 0;
    next = PerlIONext(file);
    return PerlIOValid(next) && PerlIOBase(next)->tab == &PerlIO_unix;
}

static struct stat outputs[2]; /* the files of descriptors 1 and 2, as the engine was given them */

/* Sets a variable of %ENV unless it has this value; a change also goes to the environment of children. */
static void set_variable(pTHX_ HV *env, const char *name, I32 name_length, const char *value, STRLEN length)
{
    SV **known = hv_fetch(env, name, name_length, 0);
    if (known && SvPOK(*known) && !SvUTF8(*known) && SvCUR(*known) == length && memEQ(SvPVX(*known), value, length)) return;
    SV *entry = newSVpvn(value, length);
    SV **stored = hv_store(env, name, name_length, entry, 0);
    if (stored) SvSETMAGIC(*stored);
    else SvREFCNT_dec(entry);
}

MODULE = Sluice  PACKAGE = Sluice::Native

PROTOTYPES: DISABLE

# ---- The ring ----

IV
ring_attach(int memory, UV capacity)
  CODE:
    ring = sluice_ring_attach(memory, capacity);
    RETVAL = ring ? 0 : -1;
  OUTPUT: RETVAL

IV
ring_write(SV *data)
  PREINIT:
    STRLEN length;
    const char *from;
  CODE:
    if (!ring) {
        errno = ENOTCONN;
        XSRETURN_IV(-1);
    }
    from = SvPVbyte(data, length);
    RETVAL = sluice_ring_write(ring, from, length);
  OUTPUT: RETVAL

# Reads up to `wanted` bytes of a descriptor into the ring, without a copy in Perl. The number of bytes, 0 at the end, -1: errno.
IV
ring_read_from(int descriptor, UV wanted)
  PREINIT:
    size_t granted;
    void *room;
    ssize_t count;
  CODE:
    if (!ring) {
        errno = ENOTCONN;
        XSRETURN_IV(-1);
    }
    room = sluice_ring_reserve(ring, 1, &granted);
    if (!room) XSRETURN_IV(-1);
    if (granted > wanted) granted = wanted;
    count = read(descriptor, room, granted);
    if (count > 0 && sluice_ring_commit(ring, (size_t)count)) count = -1;
    RETVAL = count;
  OUTPUT: RETVAL

# The number of bytes that were committed; -1: a write has failed.
IV
ring_close()
  PREINIT:
    uint64_t committed = 0;
    int status;
  CODE:
    if (!ring) {
        errno = ENOTCONN;
        XSRETURN_IV(-1);
    }
    status = sluice_ring_close(ring, &committed);
    ring = NULL;
    RETVAL = status ? -1 : (IV)committed;
  OUTPUT: RETVAL

# ---- The interpreter ----

# Makes the variable to which `reference` points the one with this index in the pad of `code`. The caller has got all three from B.
void
pad_put(SV *code, UV index, SV *reference)
  PREINIT:
    PADLIST *list;
    PAD *pad;
    SV *wanted, *old;
  CODE:
    if (!SvROK(code) || SvTYPE(SvRV(code)) != SVt_PVCV || !SvROK(reference)) croak("pad_put: not a subroutine and a reference");
    if (CvISXSUB((CV *)SvRV(code)) || CvDEPTH((CV *)SvRV(code)) > 0) XSRETURN_EMPTY;
    list = CvPADLIST((CV *)SvRV(code));
    if (!list || PadlistMAX(list) < 1) XSRETURN_EMPTY;
    pad = PadlistARRAY(list)[1];
    if (!pad || index == 0 || index > (UV)PadMAX(pad)) XSRETURN_EMPTY;
    wanted = SvRV(reference);
    old = PadARRAY(pad)[index];
    if (old == wanted || !old || SvTYPE(old) > SVt_PVHV || (SvTYPE(old) >= SVt_PVAV && SvTYPE(old) != SvTYPE(wanted))) XSRETURN_EMPTY;
    PadARRAY(pad)[index] = SvREFCNT_inc_simple_NN(wanted);
    SvREFCNT_dec(old);

# Whether orphans among the descendants of this process become its children.
bool
set_subreaper(int is_on)
  CODE:
    RETVAL = prctl(PR_SET_CHILD_SUBREAPER, is_on, 0, 0, 0) == 0;
  OUTPUT: RETVAL

# The size of the buffer of STDOUT, for the rest of the life of that handle. A reply that fits is written at once.
void
stdout_buffer(UV bytes)
  PREINIT:
    PerlIOBuf *buffer;
  CODE:
    buffer = buffer_of_stdout(aTHX);
    if (buffer && !buffer->buf && bytes >= 8192) buffer->bufsiz = bytes;

# The size of the buffer of STDIN, until it is opened again.
void
stdin_buffer(UV bytes)
  PREINIT:
    PerlIOBuf *buffer;
  CODE:
    buffer = buffer_of(aTHX_ "main::STDIN");
    if (buffer && !buffer->buf && bytes >= 8192) buffer->bufsiz = bytes;

# The position of STDOUT is 0 again, which `tell` shows.
void
stdout_start()
  PREINIT:
    PerlIOBuf *buffer;
  CODE:
    buffer = buffer_of_stdout(aTHX);
    if (buffer) buffer->posn = 0;

# Notes the files of descriptors 1 and 2.
void
note_outputs()
  CODE:
    fstat(1, &outputs[0]);
    fstat(2, &outputs[1]);

# Whether STDOUT and STDERR are as they were, and their descriptors still the files that were noted.
bool
outputs_are_usual()
  PREINIT:
    struct stat now;
    int i;
  CODE:
    RETVAL = is_usual(aTHX_ "main::STDOUT", 1) && is_usual(aTHX_ "main::STDERR", 2);
    for (i = 0; RETVAL && i < 2; i++)
        RETVAL = fstat(i + 1, &now) == 0 && now.st_dev == outputs[i].st_dev && now.st_ino == outputs[i].st_ino;
  OUTPUT: RETVAL

bool
input_is_usual()
  CODE:
    RETVAL = is_usual(aTHX_ "main::STDIN", 0);
  OUTPUT: RETVAL

# The bytes in the buffer of STDOUT, and nothing else happens to them; undef if STDOUT is not an ordinary handle.
SV *
stdout_pending()
  PREINIT:
    PerlIOBuf *buffer;
  CODE:
    buffer = buffer_of_stdout(aTHX);
    RETVAL = !buffer ? &PL_sv_undef : buffer->buf ? newSVpvn((char *)buffer->buf, buffer->ptr - buffer->buf) : newSVpvs("");
  OUTPUT: RETVAL

# Whether %SIG has a handler or IGNORE for any signal, __DIE__ or __WARN__. Looking at each element of %SIG takes longer.
bool
has_signals()
  PREINIT:
    int i;
  CODE:
    RETVAL = PL_diehook || (PL_warnhook && PL_warnhook != PERL_WARNHOOK_FATAL);
    for (i = 1; !RETVAL && PL_psig_ptr && i < SIG_SIZE; i++) RETVAL = PL_psig_ptr[i] && SvOK(PL_psig_ptr[i]);
  OUTPUT: RETVAL

# %ENV becomes `base` and the entries (NAME=value) of `record`, without CGIPLUSEOF. Variables that have their value already are left alone.
void
set_environment(HV *base, AV *record)
  PREINIT:
    HV *env;
    HE *entry;
    SSize_t i;
    UV count;
    HV *names;
  CODE:
    env = get_hv("ENV", GV_ADD);
    names = (HV *)sv_2mortal((SV *)newHV());
    for (i = 0; i <= av_len(record); i++) {
        STRLEN length;
        SV **item = av_fetch(record, i, 0);
        const char *text = item ? SvPVbyte(*item, length) : NULL, *value = text ? memchr(text, '=', length) : NULL;
        if (!value || value == text) continue;
        if (value - text == 10 && memEQ(text, "CGIPLUSEOF", 10)) continue;
        set_variable(aTHX_ env, text, (I32)(value - text), value + 1, length - (value + 1 - text));
        (void)hv_store(names, text, (I32)(value - text), &PL_sv_yes, 0);
    }
    hv_iterinit(base);
    while ((entry = hv_iternext(base))) {
        STRLEN length;
        I32 name_length;
        char *name = hv_iterkey(entry, &name_length);
        const char *value;
        if (hv_exists(names, name, name_length)) continue;
        value = SvPV(hv_iterval(base, entry), length);
        set_variable(aTHX_ env, name, name_length, value, length);
        (void)hv_store(names, name, name_length, &PL_sv_yes, 0);
    }
    count = HvUSEDKEYS(names);
    if (HvUSEDKEYS(env) != count) {
        AV *gone = (AV *)sv_2mortal((SV *)newAV());
        hv_iterinit(env);
        while ((entry = hv_iternext(env))) {
            SV *name = hv_iterkeysv(entry);
            if (!hv_exists_ent(names, name, 0)) av_push(gone, newSVsv(name));
        }
        for (i = 0; i <= av_len(gone); i++) {
            SV **name = av_fetch(gone, i, 0);
            if (name) (void)hv_delete_ent(env, *name, G_DISCARD, 0);
        }
    }

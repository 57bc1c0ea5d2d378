/* A shim for LD_PRELOAD that disturbs the n-th system call below a folder.
 *
 * Calls that change files are counted: opening to write, write, fsync, rename, link, unlink, mkdir, rmdir, ftruncate,
 * fallocate, chmod. With EMFILE only calls of open are counted. Descriptors are matched by /proc/self/fd, whichever
 * library opened them. The process arms the shim itself (server.py), after the fork.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { COUNT, FAIL, KILL, TORN, DELETE, CLOCK, MEMORY };

static char folder[PATH_MAX], target[PATH_MAX];
static size_t folder_length;
static atomic_long counted;
static long chosen;
static int armed, action, error_number, onwards, opens_only;
static double jump;
static atomic_int jumped;

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

void torture_arm(const char *where, const char *deleted, long number, int what, int error, int from_then_on,
                 double seconds) {
  snprintf(folder, sizeof folder, "%s", where);
  snprintf(target, sizeof target, "%s", deleted);
  folder_length = strlen(folder);
  counted = jumped = 0;
  chosen = number, action = what, error_number = error, onwards = from_then_on, jump = seconds;
  opens_only = error == EMFILE;
  armed = 1;
}

long torture_disarm(void) {
  armed = 0;
  return counted;
}

static int below(const char *path) {
  return !strncmp(path, folder, folder_length) && (!path[folder_length] || path[folder_length] == '/');
}

static int below_at(int directory, const char *path) {
  char whole[2 * PATH_MAX], base[PATH_MAX];
  if (!armed || !path) return 0;
  if (path[0] == '/') return below(path);
  if (directory == AT_FDCWD) {
    if (!getcwd(base, sizeof base)) return 0;
  } else {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    ssize_t length = readlink(link, base, sizeof base - 1);
    if (length < 0) return 0;
    base[length] = 0;
  }
  snprintf(whole, sizeof whole, "%s/%s", base, path);
  return below(whole);
}

static int below_descriptor(int descriptor) {
  char link[64], path[PATH_MAX];
  if (!armed) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return below(path);
}

/* Count a call; return true if it must fail. The caller of a torn write writes half and ends the process. */
static int disturbed(int is_open) {
  if (opens_only && !is_open) return 0;
  long number = ++counted;
  if (number != chosen && !(onwards && number > chosen)) return 0;
  switch (action) {
    case FAIL: errno = error_number; return 1;
    case KILL: kill(getpid(), SIGKILL); return 0;
    case TORN: return 1;
    case DELETE: {
      char gone[PATH_MAX + 16];
      snprintf(gone, sizeof gone, "%s.gone", target);
      REAL(rename);
      real(target, gone);
      return 0;
    }
    case CLOCK: jumped = 1; return 0;
    case MEMORY: { /* no more memory from the system; the process keeps what it has */
      struct rlimit limit;
      if (!getrlimit(RLIMIT_AS, &limit)) limit.rlim_cur = 0, setrlimit(RLIMIT_AS, &limit);
      return 0;
    }
    default: return 0;
  }
}

static int fails(int is_open) {
  if (!disturbed(is_open)) return 0;
  if (action == TORN) kill(getpid(), SIGKILL);
  return 1;
}

static int writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC); }

#define OPEN(name)                                                              \
  int name(const char *path, int flags, ...) {                                  \
    mode_t mode = 0;                                                            \
    if (flags & (O_CREAT | __O_TMPFILE)) {                                      \
      va_list more;                                                             \
      va_start(more, flags), mode = va_arg(more, mode_t), va_end(more);         \
    }                                                                           \
    REAL(name);                                                                 \
    if (below_at(AT_FDCWD, path) && (opens_only || writes(flags)) && fails(1)) return -1; \
    return real(path, flags, mode);                                             \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                            \
  int name(int directory, const char *path, int flags, ...) {                   \
    mode_t mode = 0;                                                            \
    if (flags & (O_CREAT | __O_TMPFILE)) {                                      \
      va_list more;                                                             \
      va_start(more, flags), mode = va_arg(more, mode_t), va_end(more);         \
    }                                                                           \
    REAL(name);                                                                 \
    if (below_at(directory, path) && (opens_only || writes(flags)) && fails(1)) return -1; \
    return real(directory, path, flags, mode);                                  \
  }
OPENAT(openat)
OPENAT(openat64)

DIR *opendir(const char *path) {
  REAL(opendir);
  if (opens_only && below_at(AT_FDCWD, path) && fails(1)) return NULL;
  return real(path);
}

/* Write half of a torn write to the file. */
#define WRITE(name, arguments, call, half)                                      \
  ssize_t name arguments {                                                      \
    REAL(name);                                                                 \
    if (below_descriptor(descriptor) && disturbed(0)) {                         \
      if (action != TORN) return -1;                                            \
      half;                                                                     \
      kill(getpid(), SIGKILL);                                                  \
    }                                                                           \
    return call;                                                                \
  }
WRITE(write, (int descriptor, const void *data, size_t size), real(descriptor, data, size),
      real(descriptor, data, size / 2))
WRITE(pwrite, (int descriptor, const void *data, size_t size, off_t at), real(descriptor, data, size, at),
      real(descriptor, data, size / 2, at))
WRITE(pwrite64, (int descriptor, const void *data, size_t size, off64_t at), real(descriptor, data, size, at),
      real(descriptor, data, size / 2, at))
WRITE(writev, (int descriptor, const struct iovec *parts, int count), real(descriptor, parts, count),
      real(descriptor, parts, count / 2))

#define ON_DESCRIPTOR(name, arguments, call)                                    \
  int name arguments {                                                          \
    REAL(name);                                                                 \
    if (below_descriptor(descriptor) && fails(0)) return -1;                    \
    return call;                                                                \
  }
ON_DESCRIPTOR(fsync, (int descriptor), real(descriptor))
ON_DESCRIPTOR(fdatasync, (int descriptor), real(descriptor))
ON_DESCRIPTOR(ftruncate, (int descriptor, off_t size), real(descriptor, size))
ON_DESCRIPTOR(ftruncate64, (int descriptor, off64_t size), real(descriptor, size))

ON_DESCRIPTOR(fallocate, (int descriptor, int mode, off_t at, off_t size), real(descriptor, mode, at, size))
ON_DESCRIPTOR(fallocate64, (int descriptor, int mode, off64_t at, off64_t size), real(descriptor, mode, at, size))
ON_DESCRIPTOR(fchmod, (int descriptor, mode_t mode), real(descriptor, mode))

#define ON_PATH(name, arguments, place, call)                                   \
  int name arguments {                                                          \
    REAL(name);                                                                 \
    if (place && fails(0)) return -1;                                           \
    return call;                                                                \
  }
ON_PATH(rename, (const char *from, const char *to), below_at(AT_FDCWD, to), real(from, to))
ON_PATH(renameat, (int at, const char *from, int into, const char *to), below_at(into, to), real(at, from, into, to))
ON_PATH(link, (const char *from, const char *to), below_at(AT_FDCWD, to), real(from, to))
ON_PATH(linkat, (int at, const char *from, int into, const char *to, int flags), below_at(into, to),
        real(at, from, into, to, flags))
ON_PATH(unlink, (const char *path), below_at(AT_FDCWD, path), real(path))
ON_PATH(unlinkat, (int at, const char *path, int flags), below_at(at, path), real(at, path, flags))
ON_PATH(mkdir, (const char *path, mode_t mode), below_at(AT_FDCWD, path), real(path, mode))
ON_PATH(mkdirat, (int at, const char *path, mode_t mode), below_at(at, path), real(at, path, mode))
ON_PATH(chmod, (const char *path, mode_t mode), below_at(AT_FDCWD, path), real(path, mode))
ON_PATH(symlink, (const char *to, const char *path), below_at(AT_FDCWD, path), real(to, path))
ON_PATH(truncate, (const char *path, off_t size), below_at(AT_FDCWD, path), real(path, size))
ON_PATH(rmdir, (const char *path), below_at(AT_FDCWD, path), real(path))

/* Only the wall clock jumps, not the monotonic one. */
int clock_gettime(clockid_t clock, struct timespec *now) {
  REAL(clock_gettime);
  int result = real(clock, now);
  if (armed && jumped && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += (time_t)jump;
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  REAL(gettimeofday);
  int result = real(now, zone);
  if (armed && jumped) now->tv_sec += (time_t)jump;
  return result;
}

time_t time(time_t *now) {
  REAL(time);
  time_t result = real(NULL) + (armed && jumped ? (time_t)jump : 0);
  if (now) *now = result;
  return result;
}

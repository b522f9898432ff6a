/* A library for LD_PRELOAD that refuses as Yama does under scope 1: the memory of a process to all
 * but its ancestors (task_is_descendant, security/yama/yama_lsm.c), whatever rights they have.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int parent_of(int pid)
{
    char path[64], text[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t size = fread(text, 1, sizeof text - 1, file);
    text[size] = 0;
    fclose(file);
    char *end = strrchr(text, ')');
    if (end)
        sscanf(end + 1, " %*c %d", &parent);
    return parent;
}

static int refused(int pid)
{
    while (pid > 1 && pid != getpid())
        pid = parent_of(pid);
    return pid <= 1;
}

static int is_refused_memory(int directory, const char *path)
{
    char link[64], place[128];
    size_t size = strlen(path);
    if (size < 3 || strcmp(path + size - 3, "mem") || directory < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    ssize_t length = readlink(link, place, sizeof place - 1);
    if (length < 0)
        return 0;
    place[length] = 0;
    return !strncmp(place, "/proc/", 6) && refused(atoi(place + 6));
}

#define OPENAT(name)                                                                               \
    int name(int directory, const char *path, int flags, ...)                                      \
    {                                                                                              \
        static int (*real)(int, const char *, int, ...);                                           \
        va_list rest;                                                                              \
        if (!real)                                                                                 \
            real = dlsym(RTLD_NEXT, #name);                                                        \
        if (is_refused_memory(directory, path)) {                                                  \
            errno = EACCES;                                                                        \
            return -1;                                                                             \
        }                                                                                          \
        va_start(rest, flags);                                                                     \
        int mode = va_arg(rest, int);                                                              \
        va_end(rest);                                                                              \
        return real(directory, path, flags, mode);                                                 \
    }

OPENAT(openat)
OPENAT(openat64)

ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n,
                         const struct iovec *from, unsigned long m, unsigned long flags)
{
    static ssize_t (*real)(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                           unsigned long, unsigned long);
    if (!real)
        real = dlsym(RTLD_NEXT, "process_vm_readv");
    if (refused(pid)) {
        errno = EPERM;
        return -1;
    }
    return real(pid, to, n, from, m, flags);
}

/* Changes its environment as the arguments say, reports "ready", then answers with getenv.
 *
 * Arguments, in order: set:NAME=VALUE  put:NAME=VALUE  unset:NAME  clear  keep (a second array that
 * looks like an environment, and is none)  keep-code (one whose strings lie in code)
 * stdin: names, each ended by a NUL. stdout: for each "-" (absent), or "+" and 8 hexadecimal digits
 * of length and the value. A "!" before the name: an argument as above; the answer is "-". The end
 * of stdin ends the program.
 *
 * REFER makes the executable itself refer to environ; DEFINE makes it define an environ of its own;
 * DECOY gives it a file-local variable of the name __environ.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#if defined(REFER)
extern char **environ;
#elif defined(DEFINE)
char **environ;
#elif defined(DECOY)
static char **decoy __asm__("__environ") __attribute__((used));
#endif

static char *kept_entries[] = {"DECOY=1", "OTHER_DECOY=2", NULL};
static char **volatile kept;

extern char code_string[];
__asm__(".text\n.balign 8\ncode_string: .string \"DECOY=1\"\n.previous");
static char *kept_code[] = {code_string, NULL};

static void put_all(const char *data, size_t size)
{
    while (size > 0) {
        ssize_t done = write(1, data, size);
        if (done <= 0)
            _exit(3);
        data += done;
        size -= done;
    }
}

static void act(char *what)
{
    if (strncmp(what, "set:", 4) == 0) {
        char *value = strchr(what + 4, '=');
        *value++ = '\0';
        setenv(what + 4, value, 1);
    } else if (strncmp(what, "put:", 4) == 0) {
        putenv(what + 4);
    } else if (strncmp(what, "unset:", 6) == 0) {
        unsetenv(what + 6);
    } else if (strcmp(what, "clear") == 0) {
        clearenv();
    } else if (strcmp(what, "keep") == 0) {
        kept = kept_entries;
    } else if (strcmp(what, "keep-code") == 0) {
        kept = kept_code;
    } else {
        _exit(4);
    }
}

static void answer(const char *name)
{
    const char *value = getenv(name);
    char head[32];
    if (value == NULL) {
        put_all("-", 1);
        return;
    }
    snprintf(head, sizeof head, "+%08zx", strlen(value));
    put_all(head, 9);
    put_all(value, strlen(value));
}

int main(int argc, char **argv)
{
    static char name[8192];
    size_t used = 0;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    for (int n = 1; n < argc; n++)
        act(argv[n]);
#if defined(REFER) || defined(DEFINE)
    if (environ == (char **)1)
        _exit(5);
#endif
    put_all("ready\n", 6);
    while (read(0, name + used, 1) == 1) {
        if (name[used] == '\0') {
            if (name[0] == '!')
                act(name + 1);
            answer(name[0] == '!' ? "" : name);
            used = 0;
        } else if (++used == sizeof name) {
            _exit(6);
        }
    }
    return 0;
}

/* The main thread leaves while another lives; reports "ready" once it is gone. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static void *stay(void *unused)
{
    char text[512], byte;
    snprintf(text, sizeof text, "/proc/self/task/%d/stat", (int)getpid());
    do { /* until the kernel shows the main thread as a zombie */
        int file = open(text, O_RDONLY);
        char stat[256] = "";
        if (read(file, stat, sizeof stat - 1) <= 0)
            _exit(3);
        close(file);
        if (strstr(stat, ") Z "))
            break;
        usleep(1000);
    } while (1);
    setenv("SET_BY", "thread", 1);
    if (write(1, "ready\n", 6) != 6)
        _exit(4);
    while (read(0, &byte, 1) > 0)
        ;
    _exit(0);
    return unused;
}

int main(void)
{
    pthread_t thread;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pthread_create(&thread, NULL, stay, NULL);
    pthread_exit(NULL);
}

/* launch PROGRAM ENTRY...: executes PROGRAM without arguments and with just these entries, which no
 * shell and no library checks: duplicates and entries without "=" go through.
 */
#include <unistd.h>

int main(int argc, char **argv)
{
    char *arguments[] = {argv[1], 0};
    if (argc < 2)
        return 2;
    execve(argv[1], arguments, argv + 2);
    return 3;
}

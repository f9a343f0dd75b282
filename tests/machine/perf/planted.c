/* A load whose CPU time is known: three_parts() spins three times as long as one_part(), and
   asks_the_kernel() has the kernel make zeros. Prints the nanoseconds of CPU time of each, by
   CLOCK_THREAD_CPUTIME_ID: the truth that a profile has to find.

   gcc -O0 -fno-omit-frame-pointer -o planted planted.c      (-O1 leaves leaf functions no frame)
   ./planted ROUNDS KERNEL_READS        a round takes 1 to 5 ms */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TURNS 500000

static char zeros[65536];
static volatile unsigned long sink;

__attribute__((noinline)) void three_parts(void) {
    for (unsigned long i = 0; i < 3UL * TURNS; i++) sink += i;
}

__attribute__((noinline)) void one_part(void) {
    for (unsigned long i = 0; i < 1UL * TURNS; i++) sink += i;
}

__attribute__((noinline)) long asks_the_kernel(int zero, long reads) {
    long sum = 0;
    for (long i = 0; i < reads; i++) sum += read(zero, zeros, sizeof zeros);
    return sum;
}

static long long cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    long rounds = atol(argv[1]), reads = atol(argv[2]);
    int zero = open("/dev/zero", O_RDONLY);
    long long spent[3] = {0, 0, 0};
    for (long round = 0; round < rounds; round++) {
        long long begin = cpu_ns();
        three_parts();
        long long middle = cpu_ns();
        one_part();
        long long end = cpu_ns();
        asks_the_kernel(zero, reads);
        spent[0] += middle - begin;
        spent[1] += end - middle;
        spent[2] += cpu_ns() - end;
    }
    printf("three_parts %lld\none_part %lld\nasks_the_kernel %lld\n", spent[0], spent[1], spent[2]);
    return 0;
}

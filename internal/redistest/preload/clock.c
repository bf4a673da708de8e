// Replaces the wall clock of the program that preloads it: real time plus the number of
// microseconds in the file $KEYTURN_CLOCK. redis-server reads its wall clock with gettimeofday.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *offset;

__attribute__((constructor)) static void map_offset(void) {
	const char *path = getenv("KEYTURN_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0) return;
	void *p = mmap(NULL, sizeof(long long), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED) offset = p;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
	struct timespec ts;
	(void)tz;
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts);
	long long us = ts.tv_sec * 1000000LL + ts.tv_nsec / 1000 + (offset ? *offset : 0);
	tv->tv_sec = us / 1000000;
	tv->tv_usec = us % 1000000;
	return 0;
}

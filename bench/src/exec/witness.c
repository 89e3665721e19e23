/*
 * A server that tells when it runs. Its first act is to write the clock to the start of its standard input; then it sends a
 * datagram to the port it is given, and writes the clock behind the first for the microseconds it is given.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int main(int count, char **arguments)
{
	uint64_t first = now(), last = first, end;
	struct sockaddr_in target = { .sin_family = AF_INET };

	if (pwrite(0, &first, sizeof(first), 0) != sizeof(first) || count < 3)
		return 1;
	target.sin_port = htons(atoi(arguments[1]));
	target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sendto(socket(AF_INET, SOCK_DGRAM, 0), "ran", 3, 0, (struct sockaddr *)&target, sizeof(target));
	for (end = first + strtoull(arguments[2], NULL, 10) * 1000; last < end; last = now())
		if (pwrite(0, &last, sizeof(last), sizeof(first)) != sizeof(last))
			return 1;
	return 0;
}

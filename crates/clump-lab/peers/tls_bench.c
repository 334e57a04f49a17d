/* A stream of messages over TLS 1.3 and TCP, encrypted with AES-128-GCM as clump's packets are.
 *
 *   tls_bench server ADDRESS PORT
 *   tls_bench client ADDRESS PORT BYTES     prints "bandwidth BYTES VALUE", bytes a second
 *
 * The key is given beforehand, so there are no certificates. The figure is the median over slices of
 * a few milliseconds, each acknowledged at its end, as in mpi_bench.c. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SLICES = 15, LARGEST = 64 << 20 };
static const double SLICE_S = 4e-3;
static const unsigned char KEY[32] = "not a secret: both sides know it";
static const unsigned char CIPHER[2] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */

static void check(int good, const char *what) {
  if (!good) {
    fprintf(stderr, "tls_bench: %s\n", what);
    exit(1);
  }
}

static SSL_SESSION *session_of(SSL *ssl) {
  SSL_SESSION *session = SSL_SESSION_new();
  check(session && SSL_SESSION_set1_master_key(session, KEY, sizeof KEY) &&
            SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, CIPHER)) &&
            SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION),
        "no session");
  return session;
}

static int offer(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *length,
                 SSL_SESSION **session) {
  (void)md;
  *id = (const unsigned char *)"clump";
  *length = 5;
  *session = session_of(ssl);
  return 1;
}

static int accept_key(SSL *ssl, const unsigned char *id, size_t length, SSL_SESSION **session) {
  (void)id, (void)length;
  *session = session_of(ssl);
  return 1;
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void send_all(SSL *ssl, const void *data, size_t bytes) {
  size_t sent;
  check(SSL_write_ex(ssl, data, bytes, &sent) == 1 && sent == bytes, "the stream ended");
}

/* Returns 0 if the stream ended before the first byte. */
static int receive_all(SSL *ssl, char *data, size_t bytes) {
  for (size_t have = 0, got; have < bytes; have += got)
    if (SSL_read_ex(ssl, data + have, bytes - have, &got) != 1) {
      check(have == 0, "the stream ended within a message");
      return 0;
    }
  return 1;
}

/* Seconds for `count` messages. */
static double burst(SSL *ssl, const char *buffer, size_t bytes, size_t count) {
  size_t head[2] = {bytes, count};
  char done;
  double start = now_s();
  send_all(ssl, head, sizeof head);
  for (size_t i = 0; i < count; i++) send_all(ssl, buffer, bytes);
  check(receive_all(ssl, &done, 1), "no acknowledgement");
  return now_s() - start;
}

static void client(SSL *ssl, char *buffer, size_t bytes) {
  double samples[SLICES];
  size_t count = 1;
  for (double took = 0; (took = burst(ssl, buffer, bytes, count)) < SLICE_S;) count *= 2;
  for (int i = 0; i < SLICES; i++)
    samples[i] = bytes * count / burst(ssl, buffer, bytes, count);
  qsort(samples, SLICES, sizeof *samples, ascending);
  printf("bandwidth %zu %.6e\n", bytes, samples[SLICES / 2]);
}

static void server(SSL *ssl, char *buffer) {
  size_t head[2];
  while (receive_all(ssl, (char *)head, sizeof head)) {
    check(head[0] <= LARGEST, "a message is too long");
    for (size_t i = 0; i < head[1]; i++)
      check(receive_all(ssl, buffer, head[0]), "the stream ended within a burst");
    send_all(ssl, "", 1);
  }
}

int main(int argc, char **argv) {
  int serves = argc == 4 && strcmp(argv[1], "server") == 0;
  check(serves || argc == 5, "usage: tls_bench server ADDRESS PORT | client ADDRESS PORT BYTES");
  struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[3]))};
  check(inet_pton(AF_INET, argv[2], &there.sin_addr) == 1, "ADDRESS is not one of IPv4");
  int yes = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
  if (serves) {
    int door = fd;
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    check(bind(door, (struct sockaddr *)&there, sizeof there) == 0 && listen(door, 1) == 0,
          "cannot listen");
    fd = accept(door, NULL, NULL);
    close(door);
    check(fd >= 0, "cannot accept");
  } else {
    check(connect(fd, (struct sockaddr *)&there, sizeof there) == 0, "cannot connect");
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  SSL_CTX *context = SSL_CTX_new(TLS_method());
  check(context && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) &&
            SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256"),
        "no TLS 1.3");
  SSL_CTX_set_psk_use_session_callback(context, offer);
  SSL_CTX_set_psk_find_session_callback(context, accept_key);
  SSL_CTX_set_read_ahead(context, 1);
  /* One read of the socket takes in many records. */
  SSL_CTX_set_default_read_buffer_len(context, 256 << 10);
  SSL *ssl = SSL_new(context);
  check(ssl && SSL_set_fd(ssl, fd), "no connection");
  check((serves ? SSL_accept(ssl) : SSL_connect(ssl)) == 1, "the handshake failed");
  char *buffer = calloc(1, LARGEST);
  check(buffer != NULL, "no memory");
  if (serves)
    server(ssl, buffer);
  else {
    long bytes = atol(argv[4]);
    check(bytes > 0 && bytes <= LARGEST, "BYTES is not between 1 and 64 MiB");
    client(ssl, buffer, bytes);
  }
  SSL_shutdown(ssl);
  free(buffer);
  SSL_free(ssl);
  SSL_CTX_free(context);
  return 0;
}

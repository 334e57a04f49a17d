/* What `clump lab compare` runs on UCX for long messages that are read: `ucx_ring server ADDRESS PORT
 * BYTES`, then `ucx_ring client ADDRESS PORT BYTES`. The client writes the places of a ring and sends
 * them, the server takes what does not come with its header into the places of another, sums every
 * byte, and acknowledges each slice.
 * Prints "ring BYTES BYTES_PER_S" at the client: the median over slices, as on our side. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum { SLICES = 15, SLICE_BYTES = 64 << 20, RING_BYTES = 16 << 20, DATA = 0, ACK = 1 };

static ucp_worker_h worker;
static size_t bytes, slots, count;
static char *ring;
static uint64_t begun, done, acknowledged;
static volatile uint64_t total;

static void check(int bad, const char *what) {
  if (bad) {
    fprintf(stderr, "ucx_ring: %s failed\n", what);
    exit(1);
  }
}

static void sum(const void *data, size_t length) {
  const uint64_t *words = data;
  uint64_t sums[4] = {0};
  size_t n = length / 8, i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < 4; k++) sums[k] += words[i + k];
  total += sums[0] + sums[1] + sums[2] + sums[3];
  done++;
}

static void arrived(void *request, ucs_status_t status, size_t length, void *data) {
  check(status != UCS_OK, "receiving");
  sum(data, length);
  ucp_request_free(request);
}

static ucs_status_t on_data(void *arg, const void *header, size_t header_length, void *data,
                            size_t length, const ucp_am_recv_param_t *param) {
  (void)arg, (void)header, (void)header_length;
  if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
    sum(data, length);
    return UCS_OK;
  }
  char *place = ring + begun++ % slots * bytes;
  ucp_request_param_t how = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                             .cb.recv_am = arrived,
                             .user_data = place};
  void *request = ucp_am_recv_data_nbx(worker, data, place, length, &how);
  check(UCS_PTR_IS_ERR(request), "receiving");
  if (request == NULL) sum(place, length);
  return UCS_INPROGRESS;
}

static ucs_status_t on_ack(void *arg, const void *header, size_t header_length, void *data,
                           size_t length, const ucp_am_recv_param_t *param) {
  (void)arg, (void)header, (void)header_length, (void)data, (void)length, (void)param;
  acknowledged++;
  return UCS_OK;
}

static void handle(unsigned id, ucp_am_recv_callback_t run) {
  ucp_am_handler_param_t param = {
      .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB, .id = id, .cb = run};
  check(ucp_worker_set_am_recv_handler(worker, &param) != UCS_OK, "setting a handler");
}

static void *send_one(ucp_ep_h to, unsigned id, const void *data, size_t length) {
  ucp_request_param_t how = {0};
  void *request = ucp_am_send_nbx(to, id, NULL, 0, data, length, &how);
  check(UCS_PTR_IS_ERR(request), "sending");
  return request;
}

static void wait_for(void *request) {
  if (request == NULL) return;
  while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker);
  ucp_request_free(request);
}

static void all(int fd, void *data, size_t length, int out) {
  for (size_t at = 0; at < length;) {
    ssize_t n = out ? write(fd, (char *)data + at, length - at) : read(fd, (char *)data + at, length - at);
    check(n <= 0, "exchanging addresses");
    at += n;
  }
}

/* Exchanges the addresses of the workers through a socket. */
static ucp_ep_h meet(int fd) {
  ucp_address_t *mine;
  size_t length;
  uint64_t theirs;
  check(ucp_worker_get_address(worker, &mine, &length) != UCS_OK, "the address");
  uint64_t own = length;
  all(fd, &own, sizeof own, 1);
  all(fd, mine, length, 1);
  all(fd, &theirs, sizeof theirs, 0);
  check(theirs > 1 << 20, "exchanging addresses");
  char *address = malloc(theirs);
  all(fd, address, theirs, 0);
  ucp_ep_params_t param = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (void *)address};
  ucp_ep_h ep;
  check(ucp_ep_create(worker, &param, &ep) != UCS_OK, "connecting");
  return ep;
}

static int connect_to(int server, const char *address, int port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, address, &at.sin_addr);
  if (!server) {
    check(connect(fd, (void *)&at, sizeof at) != 0, "connecting");
    return fd;
  }
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  check(bind(fd, (void *)&at, sizeof at) != 0 || listen(fd, 1) != 0, "listening");
  return accept(fd, NULL, NULL);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
  check(argc != 5, "reading four arguments");
  int server = strcmp(argv[1], "server") == 0;
  bytes = strtoul(argv[4], NULL, 10);
  check(bytes == 0 || bytes > RING_BYTES / 4, "reading the size");
  slots = RING_BYTES / bytes > 64 ? 64 : RING_BYTES / bytes;
  count = SLICE_BYTES / bytes;
  ring = aligned_alloc(4096, (slots * bytes + 4095) / 4096 * 4096);
  memset(ring, 7, slots * bytes);
  ucp_params_t param = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM};
  ucp_context_h context;
  check(ucp_init(&param, NULL, &context) != UCS_OK, "starting UCX");
  ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                .thread_mode = UCS_THREAD_MODE_SINGLE};
  check(ucp_worker_create(context, &single, &worker) != UCS_OK, "a worker");
  handle(DATA, on_data);
  handle(ACK, on_ack);
  int fd = connect_to(server, argv[2], atoi(argv[3]));
  ucp_ep_h ep = meet(fd);
  double samples[SLICES];
  void *requests[64] = {0};
  /* The slice before the first warms up. */
  for (int slice = -1; slice < SLICES; slice++) {
    if (server) {
      while (done < count * (slice + 2)) ucp_worker_progress(worker);
      wait_for(send_one(ep, ACK, "", 1));
      continue;
    }
    double start = now();
    for (size_t at = 0; at < count; at++) {
      char *place = ring + at % slots * bytes;
      wait_for(requests[at % slots]);
      memset(place, (int)at, bytes);
      requests[at % slots] = send_one(ep, DATA, place, bytes);
    }
    for (size_t at = 0; at < slots; at++) {
      wait_for(requests[at]);
      requests[at] = NULL;
    }
    while (acknowledged < (uint64_t)(slice + 2)) ucp_worker_progress(worker);
    if (slice >= 0) samples[slice] = count * bytes / (now() - start);
  }
  if (!server) {
    qsort(samples, SLICES, sizeof *samples, ascending);
    printf("ring %zu %.0f\n", bytes, samples[SLICES / 2]);
  }
  /* Neither goes before the other has all. */
  char end = 0;
  all(fd, &end, 1, 1);
  all(fd, &end, 1, 0);
  return 0;
}

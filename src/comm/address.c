/* Where a coordinator listens: a port of TCP, or a Unix socket for one host.
 *
 * Invariant: every socket made here is closed on exec and never blocks, so a thread that serves
 * many waits in poll alone. */
#include "comm/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FORMS "write \"HOST:PORT\", \"[IPv6]:PORT\" or \"unix:PATH\""

/* Digits alone: names of services differ between hosts. Five at most, so the number fits. */
static bool port_is_fine(const char *text)
{
  int value = 0;
  if (!*text || strlen(text) > 5) return false;
  for (; *text; text++) {
    if (*text < '0' || *text > '9') return false;
    value = value * 10 + (*text - '0');
  }
  return value <= 65535;
}

tsr_status tsr__address_parse(const char *text, tsr__address *out, tsr__error *error)
{
  tsr__address at = { .local = !strncmp(text, "unix:", 5) };
  if (at.local) {
    if (!text[5] || strlen(text + 5) >= sizeof(((struct sockaddr_un *)0)->sun_path))
      return tsr__error_set(error, TSR_EARG,
                            "the coordinator's address \"%.300s\" has no path, or a path that is "
                            "too long for a socket (107 bytes); " FORMS,
                            text);
    snprintf(at.host, sizeof at.host, "%s", text + 5);
    *out = at;
    return TSR_OK;
  }
  const char *colon = strrchr(text, ':'), *host = text;
  size_t length = colon ? (size_t)(colon - text) : 0;
  bool brackets = length > 2 && text[0] == '[' && text[length - 1] == ']';
  if (brackets) {
    host++;
    length -= 2;
  }
  /* Without brackets the colons of an IPv6 address would hide its port. */
  bool bare = !brackets && memchr(host, ':', length);
  if (!length || bare || length >= sizeof at.host || !port_is_fine(colon + 1))
    return tsr__error_set(error, TSR_EARG, "\"%.300s\" is no address of a coordinator; " FORMS,
                          text);
  memcpy(at.host, host, length);
  snprintf(at.port, sizeof at.port, "%s", colon + 1);
  *out = at;
  return TSR_OK;
}

/* ---- addresses of TCP ------------------------------------------------------------------------ */

/* The bytes of an address without its port; a mapped IPv4 address is that address. */
static tsr__blob host_bytes(const struct sockaddr_storage *name)
{
  if (name->ss_family == AF_INET)
    return (tsr__blob){ &((const struct sockaddr_in *)name)->sin_addr, 4 };
  const struct in6_addr *six = &((const struct sockaddr_in6 *)name)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(six)) return (tsr__blob){ six->s6_addr + 12, 4 };
  return (tsr__blob){ six, 16 };
}

static bool is_loopback(const struct sockaddr_storage *name)
{
  tsr__blob host = host_bytes(name);
  if (host.length == 4) return *(const uint8_t *)host.data == 127;
  return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)name)->sin6_addr);
}

/* Whether it is an address of this host. */
static bool is_own(const struct sockaddr_storage *name)
{
  struct ifaddrs *all = NULL;
  tsr__blob host = host_bytes(name);
  bool own = is_loopback(name);
  if (own || getifaddrs(&all)) return own;
  for (const struct ifaddrs *one = all; one && !own; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != name->ss_family) continue;
    tsr__blob other = host_bytes((const struct sockaddr_storage *)(const void *)one->ifa_addr);
    own = other.length == host.length && !memcmp(other.data, host.data, host.length);
  }
  freeifaddrs(all);
  return own;
}

/* The same port where nobody but this host comes. */
static void make_near(struct sockaddr_storage *name)
{
  if (is_loopback(name)) return;
  if (name->ss_family == AF_INET)
    ((struct sockaddr_in *)name)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  else ((struct sockaddr_in6 *)name)->sin6_addr = in6addr_loopback;
}

/* Different addresses, in order. */
typedef struct places {
  int count;
  struct place {
    struct sockaddr_storage name;
    socklen_t length;
  } at[TSR__LISTENERS];
} places;

static void add_place(places *all, const struct sockaddr *name, socklen_t length, bool near)
{
  struct place one = { .length = length };
  if (all->count == TSR__LISTENERS || length > sizeof one.name) return;
  if (name->sa_family != AF_INET && name->sa_family != AF_INET6) return;
  memcpy(&one.name, name, length);
  if (near) make_near(&one.name);
  for (int i = 0; i < all->count; i++)
    if (all->at[i].length == length && !memcmp(&all->at[i].name, &one.name, length)) return;
  all->at[all->count++] = one;
}

/* ---- sockets --------------------------------------------------------------------------------- */

/* A path counts with its NUL, a name after '@' without one: there every byte is part of it, and
 * a NUL more would be another name. */
static socklen_t local_name(const tsr__address *at, struct sockaddr_un *out)
{
  size_t length = strlen(at->host);
  memset(out, 0, sizeof *out);
  out->sun_family = AF_UNIX;
  memcpy(out->sun_path, at->host, length);
  if (at->host[0] == '@') out->sun_path[0] = '\0'; /* a name that is no file */
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (at->host[0] != '@'));
}

/* It may ask a server of names and take seconds; it is called by callers, never by a thread that
 * serves. */
static int look_up(const tsr__address *at, bool passive, struct addrinfo **out)
{
  struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                            .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0) };
  return getaddrinfo(at->host, at->port, &hints, out);
}

static int new_socket(int family)
{
  int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int yes = 1;
  /* Small frames are sent at once: nobody is to wait for the next one. */
  if (fd >= 0 && family != AF_UNIX) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return fd;
}

/* SO_REUSEADDR lets a job start again at a port whose old connections the system still
 * remembers. It lets no two listen there at the same time. */
static int listen_at(int family, const struct sockaddr *name, socklen_t length)
{
  int fd = new_socket(family), yes = 1;
  if (fd < 0) return -1;
  if (family != AF_UNIX) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  /* Addresses of the other family have a socket of their own. */
  if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
  if (!bind(fd, name, length) && !listen(fd, SOMAXCONN)) return fd;
  int code = errno;
  close(fd);
  errno = code;
  return -1;
}

static int connect_local(const tsr__address *at, int timeout_ms);

static int listen_local(const tsr__address *at)
{
  struct sockaddr_un name;
  socklen_t length = local_name(at, &name);
  int fd = listen_at(AF_UNIX, (struct sockaddr *)&name, length);
  if (fd >= 0 || errno != EADDRINUSE || at->host[0] == '@') return fd;
  /* A socket that nobody listens at is what a process left that was killed. One that is refused
   * otherwise has a listener, which is busy; a file of another kind is somebody's. */
  struct stat file;
  int probe = connect_local(at, 100);
  bool left =
      probe < 0 && errno == ECONNREFUSED && !lstat(at->host, &file) && S_ISSOCK(file.st_mode);
  if (probe >= 0) close(probe);
  if (left && !unlink(at->host)) return listen_at(AF_UNIX, (struct sockaddr *)&name, length);
  errno = EADDRINUSE;
  return -1;
}

/* Whether a name is this host's own. Such a one often stands for an address of the host alone, as
 * Debian's 127.0.1.1, where others would ask a server of names for it. */
static bool is_own_name(const char *name)
{
  char own[256] = "";
  if (gethostname(own, sizeof own - 1)) return false;
  size_t length = strcspn(own, ".");
  return *own && !strncmp(name, own, length) && (!name[length] || name[length] == '.');
}

static void add_interfaces(places *all, const char *port)
{
  struct ifaddrs *found = NULL;
  uint16_t number = htons((uint16_t)strtol(port, NULL, 10));
  if (getifaddrs(&found)) return;
  for (const struct ifaddrs *one = found; one; one = one->ifa_next) {
    if (!one->ifa_addr || !(one->ifa_flags & IFF_UP) || one->ifa_flags & IFF_LOOPBACK) continue;
    struct sockaddr_in at;
    if (one->ifa_addr->sa_family != AF_INET) continue;
    memcpy(&at, one->ifa_addr, sizeof at);
    at.sin_port = number;
    add_place(all, (const struct sockaddr *)&at, sizeof at, false);
  }
  freeifaddrs(found);
}

/* All addresses of a name; `near`: those of loopback instead. */
static int find_places(const tsr__address *at, bool near, places *out)
{
  struct addrinfo *found;
  int lookup = look_up(at, true, &found);
  *out = (places){ .count = 0 };
  if (lookup) return lookup;
  for (const struct addrinfo *one = found; one; one = one->ai_next)
    add_place(out, one->ai_addr, one->ai_addrlen, near);
  freeaddrinfo(found);
  if (!near && is_own_name(at->host)) add_interfaces(out, at->port);
  return 0;
}

static void add_listener(tsr__listeners *out, int fd, const char *where)
{
  size_t length = strlen(out->where);
  snprintf(out->where + length, sizeof out->where - length, "%s%s", length ? ", " : "", where);
  out->fd[out->count++] = fd;
}

/* At each address of the name that is this host's; false with errno: at none, or somebody else
 * listens at one of them. */
static bool listen_tcp(const tsr__address *at, bool near, tsr__listeners *out, int *lookup)
{
  places all;
  char host[INET6_ADDRSTRLEN], where[80];
  int code = EADDRNOTAVAIL;
  *lookup = find_places(at, near, &all);
  for (int i = 0; i < all.count && !*lookup; i++) {
    const struct sockaddr_storage *name = &all.at[i].name;
    int fd = listen_at(name->ss_family, (const struct sockaddr *)name, all.at[i].length);
    if (fd < 0) {
      code = errno;
      if (code == EADDRINUSE) break;
      continue;
    }
    bool six = name->ss_family == AF_INET6;
    if (!inet_ntop(name->ss_family,
                   six ? (const void *)&((const struct sockaddr_in6 *)name)->sin6_addr
                       : (const void *)&((const struct sockaddr_in *)name)->sin_addr,
                   host, sizeof host))
      host[0] = '\0';
    snprintf(where, sizeof where, six ? "[%s]:%s" : "%s:%s", host, at->port);
    add_listener(out, fd, where);
  }
  errno = code;
  if (out->count && code != EADDRINUSE) return true;
  tsr__listeners_close(out);
  errno = code;
  return false;
}

void tsr__listeners_close(tsr__listeners *all)
{
  for (int i = 0; i < all->count; i++) close(all->fd[i]);
  all->count = 0;
}

tsr_status tsr__address_listen(const tsr__address *at, bool near, tsr__listeners *out,
                               tsr__error *error)
{
  char buffer[128];
  int lookup = 0;
  *out = (tsr__listeners){ .count = 0 };
  if (at->local) {
    int fd = listen_local(at);
    if (fd >= 0) add_listener(out, fd, at->host);
    if (fd >= 0) return TSR_OK;
  } else if (listen_tcp(at, near, out, &lookup)) {
    return TSR_OK;
  }
  const char *why = lookup ? gai_strerror(lookup) : tsr__sys_text(errno, buffer, sizeof buffer);
  const char *way = !lookup && errno == EADDRINUSE
                        ? "; choose another address, or end the program that listens there"
                    : !at->local
                        ? "; the address must belong to the host of process 0: where that host has "
                          "another address inside its network, set .bind or TSR_BIND to it"
                        : "";
  return tsr__error_set(error, TSR_EIO, "process 0 cannot listen at %s%s%s: %s%s", at->host,
                        at->local ? "" : ":", at->port, why, way);
}

/* Waits for a connection under way; false with errno.
 * Ready to write says that the attempt is over, not how it went: SO_ERROR does. */
static bool connected(int fd, int timeout_ms)
{
  struct pollfd wait = { fd, POLLOUT, 0 };
  int code = 0, ready = poll(&wait, 1, timeout_ms);
  socklen_t size = sizeof code;
  if (ready == 0) code = ETIMEDOUT;
  else if (ready < 0) code = errno;
  else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size)) code = errno;
  errno = code;
  return !code;
}

static int connect_to(int family, const struct sockaddr *name, socklen_t length, int timeout_ms)
{
  int fd = new_socket(family);
  if (fd < 0) return -1;
  if (!connect(fd, name, length)) return fd;
  if ((errno == EINPROGRESS || errno == EINTR) && connected(fd, timeout_ms)) return fd;
  int code = errno;
  close(fd);
  errno = code;
  return -1;
}

/* Whether who listens at a Unix socket is of this user, or root. Any other may have been there
 * first, and would be believed in all that it says. */
static bool is_friend(int fd)
{
  struct ucred who;
  socklen_t size = sizeof who;
  return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) &&
         (who.uid == geteuid() || who.uid == 0);
}

static int connect_local(const tsr__address *at, int timeout_ms)
{
  struct sockaddr_un name;
  socklen_t length = local_name(at, &name);
  int fd = connect_to(AF_UNIX, (struct sockaddr *)&name, length, timeout_ms);
  if (fd < 0 || is_friend(fd)) return fd;
  close(fd);
  errno = EPERM;
  return -1;
}

int tsr__address_connect(const tsr__address *at, bool near, int timeout_ms, int *lookup)
{
  *lookup = 0;
  if (at->local) return connect_local(at, timeout_ms);
  struct addrinfo *found;
  *lookup = look_up(at, false, &found);
  if (*lookup) return -1;
  int fd = -1, code = 0;
  for (struct addrinfo *one = found; one && fd < 0; one = one->ai_next) {
    struct sockaddr_storage name = { .ss_family = AF_UNSPEC };
    if (one->ai_addrlen > sizeof name) continue;
    memcpy(&name, one->ai_addr, one->ai_addrlen);
    if (near && is_own(&name)) make_near(&name);
    fd = connect_to(one->ai_family, (struct sockaddr *)&name, one->ai_addrlen, timeout_ms);
    code = errno;
  }
  freeaddrinfo(found);
  errno = code;
  return fd;
}

/* The system ends a connection by itself no sooner than this program does, and tries to reach the
 * other side as often until then: after a network was gone for a while it does not wait twice as
 * long. */
void tsr__address_patience(int fd, double seconds)
{
  unsigned ms = seconds < 1e6 ? (unsigned)(seconds * 1000) : 0; /* 0: as the system likes */
  (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

/* ---- who is there ---------------------------------------------------------------------------- */

/* Who connects from this host to one of its addresses comes from that same address.
 * Of TCP the user is not known: whoever has an account on the host may come. Where that is too
 * many a secret is needed, or a Unix socket, of which the system tells the user. */
bool tsr__peer_is_near(int fd)
{
  struct sockaddr_storage here, there;
  socklen_t size_here = sizeof here, size_there = sizeof there;
  if (getsockname(fd, (struct sockaddr *)&here, &size_here) ||
      getpeername(fd, (struct sockaddr *)&there, &size_there))
    return false;
  if (here.ss_family == AF_UNIX) return is_friend(fd);
  tsr__blob a = host_bytes(&here), b = host_bytes(&there);
  bool same = a.length == b.length && !memcmp(a.data, b.data, a.length);
  return same || is_loopback(&there);
}

/* ---- wakes ----------------------------------------------------------------------------------- */

int tsr__wake_open(void)
{
  return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void tsr__wake(int fd)
{
  eventfd_write(fd, 1); /* a full counter wakes as well */
}

void tsr__wake_drain(int fd)
{
  eventfd_t count;
  eventfd_read(fd, &count);
}

/* ---- an address of one's own ----------------------------------------------------------------- */

/* Where packets to elsewhere would leave from; else any network that is up but the host's own. */
static bool find_outside(struct sockaddr_in *out)
{
  /* A place that nobody has. Nothing is sent there. */
  const struct sockaddr_in away = { .sin_family = AF_INET,
                                    .sin_port = htons(9),
                                    .sin_addr = { htonl(0xc0000201) } };
  socklen_t length = sizeof *out;
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool found = fd >= 0 && !connect(fd, (const struct sockaddr *)&away, sizeof away) &&
               !getsockname(fd, (struct sockaddr *)out, &length);
  if (fd >= 0) close(fd);
  struct ifaddrs *all = NULL;
  if (found || getifaddrs(&all)) return found;
  for (const struct ifaddrs *one = all; one && !found; one = one->ifa_next) {
    found = one->ifa_addr && one->ifa_addr->sa_family == AF_INET && (one->ifa_flags & IFF_UP) &&
            !(one->ifa_flags & IFF_LOOPBACK);
    if (found) memcpy(out, one->ifa_addr, sizeof *out);
  }
  freeifaddrs(all);
  return found;
}

/* The system chooses the port, and the socket is closed again: until the coordinator listens
 * another program may take it, and then its start says so. */
void tsr__address_own(bool one_host, char *out, size_t size)
{
  char host[INET_ADDRSTRLEN] = "127.0.0.1";
  struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
  socklen_t length = sizeof at;
  *out = '\0';
  if (!one_host && !find_outside(&at)) return;
  inet_ntop(AF_INET, &at.sin_addr, host, sizeof host);
  at.sin_port = 0;
  int fd = new_socket(AF_INET);
  if (fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof at) &&
      !getsockname(fd, (struct sockaddr *)&at, &length))
    snprintf(out, size, "%s:%d", host, ntohs(at.sin_port));
  if (fd >= 0) close(fd);
}

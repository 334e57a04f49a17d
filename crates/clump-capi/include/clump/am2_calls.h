/* AM_Request0 to AM_Request16 and the like: functions with exactly so many arguments of 32 bits.
 * Part of <clump/am2.h>, which says what they do.
 *
 * Made by `cargo run -p clump-am2 --example am2_calls`.
 */
#ifndef CLUMP_AM2_CALLS_H
#define CLUMP_AM2_CALLS_H

static __inline__ int AM_Request0(ep_t endpoint, int index, handler_t handler) {
  return clump_am_request(endpoint, index, handler, 0, NULL);
}

static __inline__ int AM_Request1(ep_t endpoint, int index, handler_t handler, int a0) {
  int32_t arguments[1];
  arguments[0] = a0;
  return clump_am_request(endpoint, index, handler, 1, arguments);
}

static __inline__ int AM_Request2(ep_t endpoint, int index, handler_t handler, int a0, int a1) {
  int32_t arguments[2];
  arguments[0] = a0;
  arguments[1] = a1;
  return clump_am_request(endpoint, index, handler, 2, arguments);
}

static __inline__ int AM_Request3(ep_t endpoint, int index, handler_t handler, int a0, int a1, int a2) {
  int32_t arguments[3];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  return clump_am_request(endpoint, index, handler, 3, arguments);
}

static __inline__ int AM_Request4(ep_t endpoint, int index, handler_t handler, int a0, int a1, int a2, int a3) {
  int32_t arguments[4];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  return clump_am_request(endpoint, index, handler, 4, arguments);
}

static __inline__ int AM_Request5(ep_t endpoint, int index, handler_t handler, int a0, int a1, int a2, int a3, int a4) {
  int32_t arguments[5];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  return clump_am_request(endpoint, index, handler, 5, arguments);
}

static __inline__ int AM_Request6(ep_t endpoint, int index, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5) {
  int32_t arguments[6];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  return clump_am_request(endpoint, index, handler, 6, arguments);
}

static __inline__ int AM_Request7(ep_t endpoint, int index, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6) {
  int32_t arguments[7];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  return clump_am_request(endpoint, index, handler, 7, arguments);
}

static __inline__ int AM_Request8(ep_t endpoint, int index, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7) {
  int32_t arguments[8];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  return clump_am_request(endpoint, index, handler, 8, arguments);
}

static __inline__ int AM_Request9(ep_t endpoint, int index, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8) {
  int32_t arguments[9];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  return clump_am_request(endpoint, index, handler, 9, arguments);
}

static __inline__ int AM_Request10(ep_t endpoint, int index, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9) {
  int32_t arguments[10];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  return clump_am_request(endpoint, index, handler, 10, arguments);
}

static __inline__ int AM_Request11(ep_t endpoint, int index, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10) {
  int32_t arguments[11];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  return clump_am_request(endpoint, index, handler, 11, arguments);
}

static __inline__ int AM_Request12(ep_t endpoint, int index, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11) {
  int32_t arguments[12];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  return clump_am_request(endpoint, index, handler, 12, arguments);
}

static __inline__ int AM_Request13(ep_t endpoint, int index, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12) {
  int32_t arguments[13];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  return clump_am_request(endpoint, index, handler, 13, arguments);
}

static __inline__ int AM_Request14(ep_t endpoint, int index, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13) {
  int32_t arguments[14];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  return clump_am_request(endpoint, index, handler, 14, arguments);
}

static __inline__ int AM_Request15(ep_t endpoint, int index, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13, int a14) {
  int32_t arguments[15];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  arguments[14] = a14;
  return clump_am_request(endpoint, index, handler, 15, arguments);
}

static __inline__ int AM_Request16(ep_t endpoint, int index, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13, int a14, int a15) {
  int32_t arguments[16];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  arguments[14] = a14;
  arguments[15] = a15;
  return clump_am_request(endpoint, index, handler, 16, arguments);
}

static __inline__ int AM_RequestI0(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes) {
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 0, NULL);
}

static __inline__ int AM_RequestI1(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0) {
  int32_t arguments[1];
  arguments[0] = a0;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 1, arguments);
}

static __inline__ int AM_RequestI2(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1) {
  int32_t arguments[2];
  arguments[0] = a0;
  arguments[1] = a1;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 2, arguments);
}

static __inline__ int AM_RequestI3(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2) {
  int32_t arguments[3];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 3, arguments);
}

static __inline__ int AM_RequestI4(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3) {
  int32_t arguments[4];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 4, arguments);
}

static __inline__ int AM_RequestI5(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4) {
  int32_t arguments[5];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 5, arguments);
}

static __inline__ int AM_RequestI6(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5) {
  int32_t arguments[6];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 6, arguments);
}

static __inline__ int AM_RequestI7(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6) {
  int32_t arguments[7];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 7, arguments);
}

static __inline__ int AM_RequestI8(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7) {
  int32_t arguments[8];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 8, arguments);
}

static __inline__ int AM_RequestI9(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8) {
  int32_t arguments[9];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 9, arguments);
}

static __inline__ int AM_RequestI10(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9) {
  int32_t arguments[10];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 10, arguments);
}

static __inline__ int AM_RequestI11(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10) {
  int32_t arguments[11];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 11, arguments);
}

static __inline__ int AM_RequestI12(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11) {
  int32_t arguments[12];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 12, arguments);
}

static __inline__ int AM_RequestI13(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12) {
  int32_t arguments[13];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 13, arguments);
}

static __inline__ int AM_RequestI14(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13) {
  int32_t arguments[14];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 14, arguments);
}

static __inline__ int AM_RequestI15(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13, int a14) {
  int32_t arguments[15];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  arguments[14] = a14;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 15, arguments);
}

static __inline__ int AM_RequestI16(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13, int a14, int a15) {
  int32_t arguments[16];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  arguments[14] = a14;
  arguments[15] = a15;
  return clump_am_request_medium(endpoint, index, handler, source, bytes, 16, arguments);
}

static __inline__ int AM_RequestXfer0(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes) {
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 0, NULL);
}

static __inline__ int AM_RequestXfer1(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0) {
  int32_t arguments[1];
  arguments[0] = a0;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 1, arguments);
}

static __inline__ int AM_RequestXfer2(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1) {
  int32_t arguments[2];
  arguments[0] = a0;
  arguments[1] = a1;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 2, arguments);
}

static __inline__ int AM_RequestXfer3(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2) {
  int32_t arguments[3];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 3, arguments);
}

static __inline__ int AM_RequestXfer4(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3) {
  int32_t arguments[4];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 4, arguments);
}

static __inline__ int AM_RequestXfer5(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4) {
  int32_t arguments[5];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 5, arguments);
}

static __inline__ int AM_RequestXfer6(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5) {
  int32_t arguments[6];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 6, arguments);
}

static __inline__ int AM_RequestXfer7(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6) {
  int32_t arguments[7];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 7, arguments);
}

static __inline__ int AM_RequestXfer8(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7) {
  int32_t arguments[8];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 8, arguments);
}

static __inline__ int AM_RequestXfer9(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8) {
  int32_t arguments[9];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 9, arguments);
}

static __inline__ int AM_RequestXfer10(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9) {
  int32_t arguments[10];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 10, arguments);
}

static __inline__ int AM_RequestXfer11(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10) {
  int32_t arguments[11];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 11, arguments);
}

static __inline__ int AM_RequestXfer12(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11) {
  int32_t arguments[12];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 12, arguments);
}

static __inline__ int AM_RequestXfer13(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12) {
  int32_t arguments[13];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 13, arguments);
}

static __inline__ int AM_RequestXfer14(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13) {
  int32_t arguments[14];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 14, arguments);
}

static __inline__ int AM_RequestXfer15(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13, int a14) {
  int32_t arguments[15];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  arguments[14] = a14;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 15, arguments);
}

static __inline__ int AM_RequestXfer16(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13, int a14, int a15) {
  int32_t arguments[16];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  arguments[14] = a14;
  arguments[15] = a15;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 1, 16, arguments);
}

static __inline__ int AM_RequestXferAsync0(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes) {
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 0, NULL);
}

static __inline__ int AM_RequestXferAsync1(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0) {
  int32_t arguments[1];
  arguments[0] = a0;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 1, arguments);
}

static __inline__ int AM_RequestXferAsync2(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1) {
  int32_t arguments[2];
  arguments[0] = a0;
  arguments[1] = a1;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 2, arguments);
}

static __inline__ int AM_RequestXferAsync3(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2) {
  int32_t arguments[3];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 3, arguments);
}

static __inline__ int AM_RequestXferAsync4(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3) {
  int32_t arguments[4];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 4, arguments);
}

static __inline__ int AM_RequestXferAsync5(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4) {
  int32_t arguments[5];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 5, arguments);
}

static __inline__ int AM_RequestXferAsync6(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5) {
  int32_t arguments[6];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 6, arguments);
}

static __inline__ int AM_RequestXferAsync7(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6) {
  int32_t arguments[7];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 7, arguments);
}

static __inline__ int AM_RequestXferAsync8(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7) {
  int32_t arguments[8];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 8, arguments);
}

static __inline__ int AM_RequestXferAsync9(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8) {
  int32_t arguments[9];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 9, arguments);
}

static __inline__ int AM_RequestXferAsync10(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9) {
  int32_t arguments[10];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 10, arguments);
}

static __inline__ int AM_RequestXferAsync11(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10) {
  int32_t arguments[11];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 11, arguments);
}

static __inline__ int AM_RequestXferAsync12(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11) {
  int32_t arguments[12];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 12, arguments);
}

static __inline__ int AM_RequestXferAsync13(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12) {
  int32_t arguments[13];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 13, arguments);
}

static __inline__ int AM_RequestXferAsync14(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13) {
  int32_t arguments[14];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 14, arguments);
}

static __inline__ int AM_RequestXferAsync15(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13, int a14) {
  int32_t arguments[15];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  arguments[14] = a14;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 15, arguments);
}

static __inline__ int AM_RequestXferAsync16(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13, int a14, int a15) {
  int32_t arguments[16];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  arguments[14] = a14;
  arguments[15] = a15;
  return clump_am_request_long(endpoint, index, offset, handler, source, bytes, 0, 16, arguments);
}

static __inline__ int AM_Reply0(void *token, handler_t handler) {
  return clump_am_reply(token, handler, 0, NULL);
}

static __inline__ int AM_Reply1(void *token, handler_t handler, int a0) {
  int32_t arguments[1];
  arguments[0] = a0;
  return clump_am_reply(token, handler, 1, arguments);
}

static __inline__ int AM_Reply2(void *token, handler_t handler, int a0, int a1) {
  int32_t arguments[2];
  arguments[0] = a0;
  arguments[1] = a1;
  return clump_am_reply(token, handler, 2, arguments);
}

static __inline__ int AM_Reply3(void *token, handler_t handler, int a0, int a1, int a2) {
  int32_t arguments[3];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  return clump_am_reply(token, handler, 3, arguments);
}

static __inline__ int AM_Reply4(void *token, handler_t handler, int a0, int a1, int a2, int a3) {
  int32_t arguments[4];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  return clump_am_reply(token, handler, 4, arguments);
}

static __inline__ int AM_Reply5(void *token, handler_t handler, int a0, int a1, int a2, int a3, int a4) {
  int32_t arguments[5];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  return clump_am_reply(token, handler, 5, arguments);
}

static __inline__ int AM_Reply6(void *token, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5) {
  int32_t arguments[6];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  return clump_am_reply(token, handler, 6, arguments);
}

static __inline__ int AM_Reply7(void *token, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6) {
  int32_t arguments[7];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  return clump_am_reply(token, handler, 7, arguments);
}

static __inline__ int AM_Reply8(void *token, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7) {
  int32_t arguments[8];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  return clump_am_reply(token, handler, 8, arguments);
}

static __inline__ int AM_Reply9(void *token, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8) {
  int32_t arguments[9];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  return clump_am_reply(token, handler, 9, arguments);
}

static __inline__ int AM_Reply10(void *token, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9) {
  int32_t arguments[10];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  return clump_am_reply(token, handler, 10, arguments);
}

static __inline__ int AM_Reply11(void *token, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10) {
  int32_t arguments[11];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  return clump_am_reply(token, handler, 11, arguments);
}

static __inline__ int AM_Reply12(void *token, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11) {
  int32_t arguments[12];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  return clump_am_reply(token, handler, 12, arguments);
}

static __inline__ int AM_Reply13(void *token, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12) {
  int32_t arguments[13];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  return clump_am_reply(token, handler, 13, arguments);
}

static __inline__ int AM_Reply14(void *token, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13) {
  int32_t arguments[14];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  return clump_am_reply(token, handler, 14, arguments);
}

static __inline__ int AM_Reply15(void *token, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13, int a14) {
  int32_t arguments[15];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  arguments[14] = a14;
  return clump_am_reply(token, handler, 15, arguments);
}

static __inline__ int AM_Reply16(void *token, handler_t handler, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13, int a14, int a15) {
  int32_t arguments[16];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  arguments[14] = a14;
  arguments[15] = a15;
  return clump_am_reply(token, handler, 16, arguments);
}

static __inline__ int AM_ReplyI0(void *token, handler_t handler, const void *source, size_t bytes) {
  return clump_am_reply_medium(token, handler, source, bytes, 0, NULL);
}

static __inline__ int AM_ReplyI1(void *token, handler_t handler, const void *source, size_t bytes, int a0) {
  int32_t arguments[1];
  arguments[0] = a0;
  return clump_am_reply_medium(token, handler, source, bytes, 1, arguments);
}

static __inline__ int AM_ReplyI2(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1) {
  int32_t arguments[2];
  arguments[0] = a0;
  arguments[1] = a1;
  return clump_am_reply_medium(token, handler, source, bytes, 2, arguments);
}

static __inline__ int AM_ReplyI3(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2) {
  int32_t arguments[3];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  return clump_am_reply_medium(token, handler, source, bytes, 3, arguments);
}

static __inline__ int AM_ReplyI4(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3) {
  int32_t arguments[4];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  return clump_am_reply_medium(token, handler, source, bytes, 4, arguments);
}

static __inline__ int AM_ReplyI5(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4) {
  int32_t arguments[5];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  return clump_am_reply_medium(token, handler, source, bytes, 5, arguments);
}

static __inline__ int AM_ReplyI6(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5) {
  int32_t arguments[6];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  return clump_am_reply_medium(token, handler, source, bytes, 6, arguments);
}

static __inline__ int AM_ReplyI7(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6) {
  int32_t arguments[7];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  return clump_am_reply_medium(token, handler, source, bytes, 7, arguments);
}

static __inline__ int AM_ReplyI8(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7) {
  int32_t arguments[8];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  return clump_am_reply_medium(token, handler, source, bytes, 8, arguments);
}

static __inline__ int AM_ReplyI9(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8) {
  int32_t arguments[9];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  return clump_am_reply_medium(token, handler, source, bytes, 9, arguments);
}

static __inline__ int AM_ReplyI10(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9) {
  int32_t arguments[10];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  return clump_am_reply_medium(token, handler, source, bytes, 10, arguments);
}

static __inline__ int AM_ReplyI11(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10) {
  int32_t arguments[11];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  return clump_am_reply_medium(token, handler, source, bytes, 11, arguments);
}

static __inline__ int AM_ReplyI12(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11) {
  int32_t arguments[12];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  return clump_am_reply_medium(token, handler, source, bytes, 12, arguments);
}

static __inline__ int AM_ReplyI13(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12) {
  int32_t arguments[13];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  return clump_am_reply_medium(token, handler, source, bytes, 13, arguments);
}

static __inline__ int AM_ReplyI14(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13) {
  int32_t arguments[14];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  return clump_am_reply_medium(token, handler, source, bytes, 14, arguments);
}

static __inline__ int AM_ReplyI15(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13, int a14) {
  int32_t arguments[15];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  arguments[14] = a14;
  return clump_am_reply_medium(token, handler, source, bytes, 15, arguments);
}

static __inline__ int AM_ReplyI16(void *token, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13, int a14, int a15) {
  int32_t arguments[16];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  arguments[14] = a14;
  arguments[15] = a15;
  return clump_am_reply_medium(token, handler, source, bytes, 16, arguments);
}

static __inline__ int AM_ReplyXfer0(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes) {
  return clump_am_reply_long(token, offset, handler, source, bytes, 0, NULL);
}

static __inline__ int AM_ReplyXfer1(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0) {
  int32_t arguments[1];
  arguments[0] = a0;
  return clump_am_reply_long(token, offset, handler, source, bytes, 1, arguments);
}

static __inline__ int AM_ReplyXfer2(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1) {
  int32_t arguments[2];
  arguments[0] = a0;
  arguments[1] = a1;
  return clump_am_reply_long(token, offset, handler, source, bytes, 2, arguments);
}

static __inline__ int AM_ReplyXfer3(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2) {
  int32_t arguments[3];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  return clump_am_reply_long(token, offset, handler, source, bytes, 3, arguments);
}

static __inline__ int AM_ReplyXfer4(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3) {
  int32_t arguments[4];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  return clump_am_reply_long(token, offset, handler, source, bytes, 4, arguments);
}

static __inline__ int AM_ReplyXfer5(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4) {
  int32_t arguments[5];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  return clump_am_reply_long(token, offset, handler, source, bytes, 5, arguments);
}

static __inline__ int AM_ReplyXfer6(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5) {
  int32_t arguments[6];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  return clump_am_reply_long(token, offset, handler, source, bytes, 6, arguments);
}

static __inline__ int AM_ReplyXfer7(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6) {
  int32_t arguments[7];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  return clump_am_reply_long(token, offset, handler, source, bytes, 7, arguments);
}

static __inline__ int AM_ReplyXfer8(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7) {
  int32_t arguments[8];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  return clump_am_reply_long(token, offset, handler, source, bytes, 8, arguments);
}

static __inline__ int AM_ReplyXfer9(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8) {
  int32_t arguments[9];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  return clump_am_reply_long(token, offset, handler, source, bytes, 9, arguments);
}

static __inline__ int AM_ReplyXfer10(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9) {
  int32_t arguments[10];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  return clump_am_reply_long(token, offset, handler, source, bytes, 10, arguments);
}

static __inline__ int AM_ReplyXfer11(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10) {
  int32_t arguments[11];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  return clump_am_reply_long(token, offset, handler, source, bytes, 11, arguments);
}

static __inline__ int AM_ReplyXfer12(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11) {
  int32_t arguments[12];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  return clump_am_reply_long(token, offset, handler, source, bytes, 12, arguments);
}

static __inline__ int AM_ReplyXfer13(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12) {
  int32_t arguments[13];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  return clump_am_reply_long(token, offset, handler, source, bytes, 13, arguments);
}

static __inline__ int AM_ReplyXfer14(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13) {
  int32_t arguments[14];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  return clump_am_reply_long(token, offset, handler, source, bytes, 14, arguments);
}

static __inline__ int AM_ReplyXfer15(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13, int a14) {
  int32_t arguments[15];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  arguments[14] = a14;
  return clump_am_reply_long(token, offset, handler, source, bytes, 15, arguments);
}

static __inline__ int AM_ReplyXfer16(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes, int a0, int a1, int a2, int a3, int a4, int a5, int a6, int a7, int a8, int a9, int a10, int a11, int a12, int a13, int a14, int a15) {
  int32_t arguments[16];
  arguments[0] = a0;
  arguments[1] = a1;
  arguments[2] = a2;
  arguments[3] = a3;
  arguments[4] = a4;
  arguments[5] = a5;
  arguments[6] = a6;
  arguments[7] = a7;
  arguments[8] = a8;
  arguments[9] = a9;
  arguments[10] = a10;
  arguments[11] = a11;
  arguments[12] = a12;
  arguments[13] = a13;
  arguments[14] = a14;
  arguments[15] = a15;
  return clump_am_reply_long(token, offset, handler, source, bytes, 16, arguments);
}

#endif /* CLUMP_AM2_CALLS_H */

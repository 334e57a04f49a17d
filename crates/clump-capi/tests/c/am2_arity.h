/* Lists of 0 to 16 arguments: P(n) as parameters, V(n) as values, X(n) out of the array x; EACH(m)
 * is m(0) to m(16). Every list except that for 0 begins with a comma. */
#ifndef AM2_ARITY_H
#define AM2_ARITY_H

#define P0
#define P1 , int a0
#define P2 P1, int a1
#define P3 P2, int a2
#define P4 P3, int a3
#define P5 P4, int a4
#define P6 P5, int a5
#define P7 P6, int a6
#define P8 P7, int a7
#define P9 P8, int a8
#define P10 P9, int a9
#define P11 P10, int a10
#define P12 P11, int a11
#define P13 P12, int a12
#define P14 P13, int a13
#define P15 P14, int a14
#define P16 P15, int a15

#define V0
#define V1 , a0
#define V2 V1, a1
#define V3 V2, a2
#define V4 V3, a3
#define V5 V4, a4
#define V6 V5, a5
#define V7 V6, a6
#define V8 V7, a7
#define V9 V8, a8
#define V10 V9, a9
#define V11 V10, a10
#define V12 V11, a11
#define V13 V12, a12
#define V14 V13, a13
#define V15 V14, a14
#define V16 V15, a15

#define X0
#define X1 , x[0]
#define X2 X1, x[1]
#define X3 X2, x[2]
#define X4 X3, x[3]
#define X5 X4, x[4]
#define X6 X5, x[5]
#define X7 X6, x[6]
#define X8 X7, x[7]
#define X9 X8, x[8]
#define X10 X9, x[9]
#define X11 X10, x[10]
#define X12 X11, x[11]
#define X13 X12, x[12]
#define X14 X13, x[13]
#define X15 X14, x[14]
#define X16 X15, x[15]

/* Types alone. */
#define T0
#define T1 , int
#define T2 T1, int
#define T3 T2, int
#define T4 T3, int
#define T5 T4, int
#define T6 T5, int
#define T7 T6, int
#define T8 T7, int
#define T9 T8, int
#define T10 T9, int
#define T11 T10, int
#define T12 T11, int
#define T13 T12, int
#define T14 T13, int
#define T15 T14, int
#define T16 T15, int

#define EACH(m)                                                                                              \
    m(0) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8) m(9) m(10) m(11) m(12) m(13) m(14) m(15) m(16)

#endif /* AM2_ARITY_H */

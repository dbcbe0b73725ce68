"""Complex numbers in CUDA, which has none of its own."""

from __future__ import annotations

COMPLEX = """\
// Complex numbers with the arithmetic of C.
template <typename T> struct alignas(2 * sizeof(T)) Complex {
  T re, im;
  Complex() = default;
  __device__ Complex(T a, T b = 0) : re(a), im(b) {}
  template <typename U> __device__ explicit Complex(Complex<U> z) : re((T)z.re), im((T)z.im) {}
  __device__ Complex operator-() const { return Complex(-re, -im); }
  __device__ explicit operator bool() const { return re != 0 || im != 0; }
};
#define COMPLEX(T) template <typename T> static __device__ inline
COMPLEX(T) Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return Complex<T>(a.re + b.re, a.im + b.im);
}
COMPLEX(T) Complex<T> operator-(Complex<T> a, Complex<T> b) {
  return Complex<T>(a.re - b.re, a.im - b.im);
}
COMPLEX(T) Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return Complex<T>(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}
COMPLEX(T) Complex<T> operator/(Complex<T> a, Complex<T> b) {
  // Divided by the larger part first, so that squares do not overflow.
  if (fabs(b.re) >= fabs(b.im)) {
    const T q = b.im / b.re, d = b.re + b.im * q;
    return Complex<T>((a.re + a.im * q) / d, (a.im - a.re * q) / d);
  }
  const T q = b.re / b.im, d = b.re * q + b.im;
  return Complex<T>((a.re * q + a.im) / d, (a.im * q - a.re) / d);
}
COMPLEX(T) bool operator==(Complex<T> a, Complex<T> b) { return a.re == b.re && a.im == b.im; }
COMPLEX(T) bool operator!=(Complex<T> a, Complex<T> b) { return !(a == b); }
COMPLEX(T) bool nonzero(Complex<T> a) { return a.re != 0 || a.im != 0; }
COMPLEX(T) Complex<T> &operator+=(Complex<T> &a, Complex<T> b) { return a = a + b; }
COMPLEX(T) Complex<T> &operator-=(Complex<T> &a, Complex<T> b) { return a = a - b; }
COMPLEX(T) Complex<T> &operator*=(Complex<T> &a, Complex<T> b) { return a = a * b; }
COMPLEX(T) T cabs(Complex<T> z) { return (T)hypot((double)z.re, (double)z.im); }
COMPLEX(T) Complex<T> polar(T r, T angle) { return Complex<T>(r * cos(angle), r * sin(angle)); }
COMPLEX(T) Complex<T> cexp(Complex<T> z) { return polar<T>(exp(z.re), z.im); }
COMPLEX(T) Complex<T> clog(Complex<T> z) { return Complex<T>(log(cabs(z)), atan2(z.im, z.re)); }
COMPLEX(T) Complex<T> csqrt(Complex<T> z) {
  const T r = cabs(z);
  if (r == 0) return Complex<T>(0, z.im);
  const T a = sqrt((r + fabs(z.re)) / 2), b = fabs(z.im) / (2 * a);
  return z.re >= 0 ? Complex<T>(a, copysign(b, z.im)) : Complex<T>(b, copysign(a, z.im));
}
COMPLEX(T) Complex<T> csin(Complex<T> z) {
  return Complex<T>(sin(z.re) * cosh(z.im), cos(z.re) * sinh(z.im));
}
COMPLEX(T) Complex<T> ccos(Complex<T> z) {
  return Complex<T>(cos(z.re) * cosh(z.im), -sin(z.re) * sinh(z.im));
}
COMPLEX(T) Complex<T> ctan(Complex<T> z) { return csin(z) / ccos(z); }
COMPLEX(T) Complex<T> ctanh(Complex<T> z) {
  const Complex<T> t = ctan(Complex<T>(-z.im, z.re));
  return Complex<T>(t.im, -t.re);
}
COMPLEX(T) Complex<T> cpow(Complex<T> z, Complex<T> w) {
  if (!nonzero(z)) return nonzero(w) ? Complex<T>(0) : Complex<T>(1);
  return cexp(w * clog(z));
}
"""

"""Calls of Fourier transforms."""

from __future__ import annotations

from guard_call import call

import graphc as gx

for _name in ("fft", "ifft", "rfft", "ihfft", "fftn", "ifftn", "rfftn", "fft2", "ifft2", "rfft2"):
    _function = getattr(gx.fft, _name)
    call(_name, "ab", lambda x, f=_function: gx.view_as_real(f(x)))
for _name in ("irfft", "hfft", "irfftn", "irfft2"):
    _function = getattr(gx.fft, _name)
    call(_name, "a b", lambda x, y, f=_function: f(x[None] * y[:, None]))
call("fft", "ab b", lambda x, y: gx.view_as_real(gx.fft.fft(x, 5, axis=0) * y))
call("fftshift", "ab a", lambda x, y: gx.fft.fftshift(x, 1) * y[:, None])
call("ifftshift", "ab b", lambda x, y: gx.fft.ifftshift(x) * y)
call("fftfreq", "a", lambda x: gx.fft.fftfreq(x.shape[0]) * x)
call("rfftfreq", "a", lambda x: gx.fft.rfftfreq(2 * x.shape[0] - 1) * x)

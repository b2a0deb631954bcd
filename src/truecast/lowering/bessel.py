"""Bessel and Airy functions that XLA has not, in the operand's own dtype.

Near 0 by Chebyshev series, far out by the amplitude and phase of the asymptotic form, whose slowly varying factors are
Chebyshev series of the inverse argument. Special values are PyTorch's (law N7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jax import lax

from truecast.lowering.context import Array
from truecast.lowering.elementwise import is_nan, like
from truecast.lowering.gamma import chebyshev
from truecast.lowering.registry import register
from truecast.lowering.special import i0, i1

# Chebyshev coefficients, computed with mpmath at 40 digits: of J0(x), J1(x) / x, Y0(x) - (2 / pi) log(x / 2) J0(x) and
# (Y1(x) - (2 / pi) (log(x / 2) J1(x) - 1 / x)) / x, in x * x / 32 - 1 for x up to 8; beyond, of P(x) and x Q(x) in
# 128 / x**2 - 1. There J(x) = sqrt(2 / (pi x)) (P cos(c) - Q sin(c)) and Y(x) = sqrt(2 / (pi x)) (P sin(c) + Q cos(c)),
# and c is x less pi / 4 (order 0) or 3 pi / 4 (order 1).
# fmt: off
_J0 = (
    0.15772797147489012, -8.72344235285222129e-3, 0.26517861320333681, -0.370094993872649779, 0.158067102332097261,
    -0.0348937694114088852, 4.8191800694676045e-3, -4.60626166206275048e-4, 3.24603288210050808e-5,
    -1.76194690776215075e-6, 7.60816359241878187e-8, -2.6792535305576729e-9, 7.84869631447946442e-11,
    -1.94383468673701657e-12, 4.12532059563437393e-14, -7.58850812544754634e-16, 1.2218515873961411e-17,
)
_J1 = (
    0.0810448463256581151, -0.148975145067652109, 0.160999262357209703, -0.0826804917668179066,
    0.0222136396549660354, -3.64694060076927596e-3, 4.05033772835482183e-4, -3.25555486685725852e-5,
    1.98587740499151674e-6, -9.52198475675043618e-8, 3.68713375909714824e-9, -1.17802662269588484e-10,
    3.16015458034800332e-12, -7.22175523965177343e-14, 1.42321440035139423e-15, -2.44419729161904639e-17,
)
_Y0 = (
    0.0364546980911604436, -0.278323709407582483, 0.296049999020714817, 0.0982550840818786406,
    -0.107551552806277835, 0.0317990740844145154, -5.16139710581071495e-3, 5.49852532003901154e-4,
    -4.19969831494201307e-5, 2.4290361107923794e-6, -1.10499697934729561e-7, 4.06651736597911049e-9,
    -1.23741488982898525e-10, 3.16857255289459444e-12, -6.92695603243100108e-14, 1.3086308625876684e-15,
    -2.15862019869144832e-17,
)
_Y1 = (
    0.0383007698524237788, -0.0818256141273282641, -0.0248677076121964005, 0.0479674527527469829,
    -0.0185258845108980222, 3.6806076878235111e-3, -4.62725406029336872e-4, 4.06940026958086987e-5,
    -2.66176951252956262e-6, 1.3506026913254338e-7, -5.48352411033627658e-9, 1.82450868412290077e-10,
    -5.07066663659112913e-12, 1.1956162517587949e-13, -2.42316244271247323e-15, 4.26812651307296236e-17,
)
_P0 = (
    0.999460349347518665, -5.36522046813211742e-4, 3.07518478751947462e-6, -5.1705945376060977e-8,
    1.63064646351513831e-9, -7.86409137723707e-11, 5.16826238734919246e-12, -4.30457886992539122e-13,
    4.32659574315494056e-14, -5.06903409593523608e-15, 6.7480722157338737e-16, -1.00115137234677858e-16,
    1.63059192337441847e-17,
)
_Q0 = (
    -0.124446836842696073, 5.47081595408931968e-4, -5.93159872884851781e-6, 1.43779657983751934e-7,
    -5.81753274949305598e-9, 3.37609752373499076e-10, -2.5653979367973078e-11, 2.40491610028136505e-12,
    -2.6690625482579416e-13, 3.4041800321963689e-14, -4.87994410531204001e-15, 7.72970317624260539e-16,
    -1.3348852171502517e-16, 2.48659523893905155e-17, -4.95289262988651594e-18,
)
_P1 = (
    1.0009030408600137, 8.98989833085940856e-4, -3.98728430048890852e-6, 6.17763396064429853e-8,
    -1.87189074910630661e-9, 8.8168986595823389e-11, -5.7048636403956447e-12, 4.69919551523054238e-13,
    -4.68422378399048922e-14, 5.45267489604471717e-15, -7.22118084227401792e-16, 1.06676891143354125e-16,
    -1.7312313216116335e-17,
)
_Q1 = (
    0.374222296556282602, -7.70217883932566346e-4, 7.3108922063643633e-6, -1.6767825107266738e-7,
    6.5833546621204433e-9, -3.74909095054155618e-10, 2.81217503597488647e-11, -2.61145253946231994e-12,
    2.87742126633322335e-13, -3.64900191606183776e-14, 5.20662636622670716e-15, -8.21531802545859429e-16,
    1.41410843902118333e-16, -2.62676158983852917e-17, 5.21926491967140824e-18,
)
# Of K0(x) + log(x / 2) I0(x) and x (K1(x) - log(x / 2) I1(x)) in x * x / 2 - 1 for x up to 2; beyond, of
# K(x) exp(x) sqrt(x) in 4 / x - 1.
_K0 = (
    -0.267663696616951384, 0.344289899924628487, 0.0359799365153615016, 1.26461541144692592e-3,
    2.28621210311945179e-5, 2.53479107902614946e-7, 1.90451637722020886e-9, 1.03496952576336246e-11,
    4.25981614279108258e-14, 1.3744654358807509e-16,
)
_K1 = (
    0.762650113669473885, -0.353155960776544876, -0.122611180822657148, -6.97572385963986435e-3,
    -1.73028895751305206e-4, -2.43340614156596823e-6, -2.21338763073472586e-8, -1.41148839263352776e-10,
    -6.66690169419932901e-13, -2.42744985051936593e-15,
)
_K0_FAR = (
    1.22015154103297773, -0.0314481013119645005, 1.56988388573005337e-3, -1.28495495816278026e-4,
    1.39498137188764994e-5, -1.83175552271911948e-6, 2.76681363944501508e-7, -4.66048989768794767e-8,
    8.57403401741422609e-9, -1.69753450938906152e-9, 3.57739728140032845e-10, -7.95748924447739704e-11,
    1.85594911495492655e-11, -4.51459788337451918e-12, 1.14034058820734423e-12, -2.98009692314817835e-13,
    8.03289077506837437e-14, -2.22751332674629636e-14, 6.34007647627664597e-15, -1.84859337792090717e-15,
    5.51205599940433336e-16, -1.67823112575490064e-16, 5.21039177764355411e-17,
)
_K1_FAR = (
    1.36031309524222133, 0.103923736576817238, -2.85781685962277939e-3, 1.95215518471351631e-4,
    -1.93619797416608296e-5, 2.40648494783721712e-6, -3.50196060308781254e-7, 5.74108412545004929e-8,
    -1.0345762465678097e-8, 2.01504975519703462e-9, -4.19035475934192558e-10, 9.21831518760531413e-11,
    -2.12996783842779102e-11, 5.13963967348234354e-12, -1.28917396094982294e-12, 3.34841966605224312e-13,
    -8.97670518201014607e-14, 2.47715442421959868e-14, -7.01983708921476885e-15, 2.03870316623986088e-15,
    -6.05704727064301782e-16, 1.83809357524304543e-16, -5.68946284919364837e-17,
)
# With z = (2 / 3) |x|**1.5: of Ai(x) 2 sqrt(pi) x**(1/4) exp(z) in 2 z(2) / z - 1 for x > 2; of Ai(x) in (x + 1) / 3 on
# [-4, 2]; of P and z Q in 2 (z(4) / z)**2 - 1 for x < -4, where Ai(x) = (P cos(c) + Q sin(c)) / (sqrt(pi) |x|**(1/4))
# and c = z - pi / 4.
_AIRY_FAR = (
    0.984405304917155196, -0.0147927848501041987, 7.32717746542671434e-4, -6.12595423417824993e-5,
    6.83476697557269029e-6, -9.23722973540398155e-7, 1.4362253404380519e-7, -2.48931942232209598e-8,
    4.7097934400543278e-9, -9.58386370811273208e-10, 2.07458554836775917e-10, -4.73726733219227696e-11,
    1.13360998082242348e-11, -2.82770678231935085e-12, 7.32071209512559757e-13, -1.95997939110897221e-13,
    5.41011625706839221e-14, -1.53564668022238356e-14, 4.47234039330002478e-15, -1.33380946747566825e-15,
    4.06658204645623099e-16, -1.26558322564528899e-16, 4.0151263340158711e-17,
)
_AIRY_NEAR = (
    0.0607852568507972646, 0.189960308817291225, -0.250924387032336011, -0.0951201401350305422,
    0.202363241983700768, -0.0641872830630524977, -0.0268147031860399641, 0.0240519042812738565,
    -4.13259164974894983e-3, -2.01968179054942258e-3, 1.12507687506545585e-3, -1.16975387096766061e-4,
    -7.12549925306068209e-5, 2.8167833107042442e-5, -1.75947423896915616e-6, -1.45872015241687175e-6,
    4.38874795843603274e-7, -1.46270958661975066e-8, -1.9495992841846797e-8, 4.66055277416388398e-9,
    -5.1062451179042338e-11, -1.83433267087891972e-10, 3.58576420412789252e-11, 2.65824132747957269e-13,
    -1.28054475741980592e-12, 2.08858966045024075e-13, 4.8741837202287107e-15, -6.89508092788503504e-15,
    9.51965014570017066e-16, 3.59789914221450354e-17, -2.95027058337212553e-17, 3.48398944245941637e-18,
)
_AIRY_P = (
    0.999370889074277834, -6.2168365843741161e-4, 7.18119377436864486e-6, -2.31626981350175815e-7,
    1.32162838885287557e-8, -1.09387361727581263e-9, 1.17946207379085343e-10, -1.55188419099298557e-11,
    2.38692741149246599e-12, -4.16552889201034997e-13, 8.0716781107414668e-14, -1.70875732111056695e-14,
    3.90294514854081473e-15, -9.52397678490706461e-16, 2.46328108857526029e-16, -6.70907746346485779e-17,
    1.91393968371870712e-17,
)
_AIRY_Q = (
    0.0688217055630800092, -6.08915184083269396e-4, 1.31741510140899723e-5, -6.0140719129082979e-7,
    4.32753734229849928e-8, -4.24773173295472548e-9, 5.23228537683449369e-10, -7.67229097511502385e-11,
    1.29238094526987113e-11, -2.43852975710828996e-12, 5.05904723787208425e-13, -1.1378513792256328e-13,
    2.7441377308322257e-14, -7.0344821126325795e-15, 1.90321143671989157e-15, -5.40304054140930739e-16,
    1.60167110265852332e-16, -4.93752744035280668e-17, 1.57734357977811523e-17, -5.206129581838458e-18,
    1.77067879474001645e-18,
)
# fmt: on


def _square(x: Array) -> Array:
    return lax.mul(x, x)


def _scaled(x: Array, factor: float) -> Array:
    return lax.mul(x, like(x, factor))


def _less(x: Array, number: float) -> Array:
    return lax.sub(x, like(x, number))


def _near(coefficients: Sequence[float], x: Array) -> Array:
    """A series in x * x / 32 - 1, for |x| up to 8."""
    return chebyshev(coefficients, _less(_scaled(_square(lax.min(x, like(x, 8))), 1 / 32), 1))


def _far(order: int, x: Array) -> tuple[Array, Array]:
    """sqrt(2 / (pi x)) times (P cos(c) - Q sin(c)) and times (P sin(c) + Q cos(c)), for x of 8 and more."""
    inverse = lax.div(like(x, 8), lax.max(x, like(x, 8)))
    t = _less(_scaled(_square(inverse), 2), 1)
    p = chebyshev((_P0, _P1)[order], t)
    q = lax.mul(chebyshev((_Q0, _Q1)[order], t), _scaled(inverse, 1 / 8))
    phase = _less(x, (2 * order + 1) * math.pi / 4)
    sine, cosine = lax.sin(phase), lax.cos(phase)
    size = lax.sqrt(_scaled(inverse, 1 / (4 * math.pi)))
    first = lax.sub(lax.mul(p, cosine), lax.mul(q, sine))
    return lax.mul(size, first), lax.mul(size, lax.add(lax.mul(p, sine), lax.mul(q, cosine)))


def _j0(x: Array) -> Array:
    size = lax.abs(x)
    return lax.select(lax.gt(size, like(x, 8)), _far(0, size)[0], _near(_J0, size))


def _j1(x: Array) -> Array:
    size = lax.abs(x)
    far = _far(1, size)[0]
    far = lax.select(lax.lt(x, like(x, 0)), lax.neg(far), far)
    return lax.select(lax.gt(size, like(x, 8)), far, lax.mul(x, _near(_J1, size)))


def _defined(x: Array, result: Array, at_zero: float) -> Array:
    """`result`, but `at_zero` at 0 and NaN below."""
    result = lax.select(lax.eq(x, like(x, 0)), like(x, at_zero), result)
    return lax.select(lax.lt(x, like(x, 0)), like(x, math.nan), result)


def _y0(x: Array) -> Array:
    near = lax.add(_near(_Y0, x), _scaled(lax.mul(lax.log(_scaled(x, 0.5)), _j0(x)), 2 / math.pi))
    return _defined(x, lax.select(lax.gt(x, like(x, 8)), _far(0, x)[1], near), -np.inf)


def _y1(x: Array) -> Array:
    pole = lax.sub(lax.mul(lax.log(_scaled(x, 0.5)), _j1(x)), lax.div(like(x, 1), x))
    near = lax.add(lax.mul(x, _near(_Y1, x)), _scaled(pole, 2 / math.pi))
    return _defined(x, lax.select(lax.gt(x, like(x, 8)), _far(1, x)[1], near), -np.inf)


def _k(x: Array, order: int, scaled: bool) -> Array:
    """K of order 0 or 1, times exp(x) if `scaled`; +inf at 0 and NaN below."""
    y = lax.min(x, like(x, 2))
    t = _less(_scaled(_square(y), 0.5), 1)
    logarithm = lax.log(_scaled(y, 0.5))
    if order == 0:
        near = lax.sub(chebyshev(_K0, t), lax.mul(logarithm, i0(y)))
    else:
        near = lax.add(lax.div(chebyshev(_K1, t), y), lax.mul(logarithm, i1(y)))
    large = lax.max(x, like(x, 2))
    far = chebyshev(_K0_FAR if order == 0 else _K1_FAR, _less(lax.div(like(x, 4), large), 1))
    far = lax.div(far, lax.sqrt(large))
    if scaled:
        near = lax.mul(near, lax.exp(y))
    else:
        far = lax.mul(far, lax.exp(lax.neg(large)))
    return _defined(x, lax.select(lax.gt(x, like(x, 2)), far, near), np.inf)


def _airy(x: Array) -> Array:
    """Ai(x); 0 beyond 103.892 and NaN at both infinities, as in PyTorch."""
    size = lax.max(lax.abs(x), like(x, 2))
    root = lax.sqrt(size)
    z = _scaled(lax.mul(size, root), 2 / 3)
    quarter = lax.sqrt(root)
    start = 2 / 3 * 2**1.5
    decay = chebyshev(_AIRY_FAR, _less(lax.div(like(x, 2 * start), z), 1))
    decay = lax.div(lax.mul(_scaled(decay, 0.5 / math.sqrt(math.pi)), lax.exp(lax.neg(z))), quarter)
    near = chebyshev(_AIRY_NEAR, _scaled(lax.add(lax.clamp(like(x, -4), x, like(x, 2)), like(x, 1)), 1 / 3))
    inverse = lax.min(lax.div(like(x, 16 / 3), z), like(x, 1))
    t = _less(_scaled(_square(inverse), 2), 1)
    q = lax.mul(chebyshev(_AIRY_Q, t), _scaled(inverse, 3 / 16))
    phase = _less(z, math.pi / 4)
    wave = lax.add(lax.mul(chebyshev(_AIRY_P, t), lax.cos(phase)), lax.mul(q, lax.sin(phase)))
    wave = lax.div(_scaled(wave, 1 / math.sqrt(math.pi)), quarter)
    result = lax.select(lax.lt(x, like(x, -4)), wave, lax.select(lax.gt(x, like(x, 2)), decay, near))
    result = lax.select(lax.gt(x, like(x, 103.892)), like(x, 0), result)
    undefined = lax.bitwise_or(is_nan(x), lax.eq(lax.abs(x), like(x, np.inf)))
    return lax.select(undefined, like(x, math.nan), result)


register("special_airy_ai", lambda ctx, x: _airy(x))
register("special_bessel_j0", lambda ctx, self: _j0(self))
register("special_bessel_j1", lambda ctx, self: _j1(self))
register("special_bessel_y0", lambda ctx, self: _y0(self))
register("special_bessel_y1", lambda ctx, self: _y1(self))
register("special_modified_bessel_k0", lambda ctx, self: _k(self, 0, scaled=False))
register("special_modified_bessel_k1", lambda ctx, self: _k(self, 1, scaled=False))
register("special_scaled_modified_bessel_k0", lambda ctx, x: _k(x, 0, scaled=True))
register("special_scaled_modified_bessel_k1", lambda ctx, x: _k(x, 1, scaled=True))

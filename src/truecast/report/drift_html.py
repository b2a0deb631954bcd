"""A drift as one HTML page: the summary, the picture, every table."""

from __future__ import annotations

from markupsafe import Markup

from truecast.diagnose.drift import Measurements
from truecast.report import drift_plot, drift_text
from truecast.report.page import fragment, page

_MOST_VALUES = 2000


def render(measured: Measurements) -> str:
    """The page. Of more than 2000 values, those with the largest ratios of B to the honest error."""
    tables = [drift_text.modules(measured), drift_text.ops(measured)]
    if measured.decisions:
        tables.append(drift_text.decisions(measured))
    if measured.training is not None:
        tables.append(drift_text.steps(measured))
    shown = measured
    if len(measured.nodes) > _MOST_VALUES:
        worst = sorted(measured.nodes, key=lambda n: -(n.ratios[1] or 0))[:_MOST_VALUES]
        shown = Measurements(measured.program, measured.a, measured.b, measured.reference, tuple(worst))
    tables.append(drift_text.values(shown))
    body = fragment(
        _BODY,
        summary=list(drift_text.summary(measured)),
        picture=Markup(drift_plot.svg(measured)),
        tables=tables,
        left=("there", "where"),
    )
    return page(f"Drift of {measured.program}: {measured.a} and {measured.b}", body, style=drift_plot.STYLE)


_BODY = """\
<ul>
{% for line in summary %}
<li>{{ line }}</li>
{% endfor %}
</ul>
<h2>Error against depth</h2>
<p class="faint">The norm of the error over the norm of the reference, of every value in program order.</p>
{{ picture }}
{% for rows in tables %}
<h2>{{ rows.caption }}</h2>
<div class="table"><table>
<thead><tr>
{% for heading in rows.headings %}
<th{% if loop.index0 >= rows.left and heading not in left %} class="number"{% endif %}>{{ heading }}</th>
{% endfor %}
</tr></thead>
<tbody>
{% for cells in rows.cells %}
<tr>
{% for cell in cells %}
{% set word = loop.index0 < rows.left or rows.headings[loop.index0] in left %}
<td{% if not word %} class="number"{% endif %}>{{ cell }}</td>
{% endfor %}
</tr>
{% endfor %}
</tbody></table></div>
{% endfor %}
"""

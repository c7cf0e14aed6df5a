"""What the audit found about one property of a method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """name: of the property. numbers: what was measured, by name. sentence: what it means."""

    name: str
    passed: bool
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    def line(self) -> str:
        numbers = ", ".join(f"{name} {_short(number)}" for name, number in self.numbers.items())
        verdict = "pass" if self.passed else "FAIL"
        return f"{verdict}  {self.name:<16}  {self.sentence}" + (f"  ({numbers})" if numbers else "")


def findings_text(findings: Sequence[Finding]) -> str:
    """One line a property, and how many passed."""
    passed = sum(finding.passed for finding in findings)
    return "\n".join([*(finding.line() for finding in findings), f"{passed} of {len(findings)} properties hold"])


def _short(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.2g}"

// What a transcript may hold that wants to be more than text.

export const TABLE_ROWS = 10_000;

const table = ["| a | b |", "|---|---|", ...Array.from({ length: TABLE_ROWS }, (_, number) => `| rowword ${number} | <td onclick=x> |`)].join("\n");

export const HOSTILE = [
  "<script>globalThis.hostile = 1; alert(1)</script>",
  '<img src=x onerror="globalThis.hostile = 2"><svg onload=alert(1)><iframe srcdoc="<script>parent.hostile=3</script>"></iframe>',
  "[click](javascript:alert(1)) [data](data:text/html,<script>alert(1)</script>) ![p](https://evil.example/pixel.png) <javascript:alert(2)> [x](JaVaScRiPt:alert(3)) [v](vbscript:x)",
  '[a](https://example.org/"onmouseover="alert(1)) <a href="javascript:alert(1)" onclick="alert(2)">b</a> <style>*{display:none}</style> <base href="https://evil.example/"> <meta http-equiv=refresh content="0;url=https://evil.example/">',
  `${"w".repeat(200_000)} ${"https://example.org/".repeat(400)}`,
  "\u202egnp.exe\u202c \u2066left\u2069 \u200fright\u200e ab\u061c",
  "\u001b[31mred\u001b[0m \u001b]0;title\u0007 \u001b]8;;https://evil.example\u0007link\u001b]8;;\u0007 \u0000\u0007\u0008 a\rb",
  "\u001b]0;hidden\nseen\u200b \u001bPhidden too",
  `# a${" ".repeat(16_000)}x\n\`\`\`${" ".repeat(16_000)}\`\n| a |\n|${"-".repeat(16_000)}x`,
  "**".repeat(20_000) + "[".repeat(20_000) + "`".repeat(20_001),
  `${"> ".repeat(5_000)}deep\n${"  ".repeat(300)}- item\n\n\`\`\`<script>\n</code></pre><script>alert(1)</script>\n\`\`\``,
  "{{constructor.constructor('alert(1)')()}} ${alert(1)} &lt;script&gt; &#x3C;script&#x3E;",
  table,
];

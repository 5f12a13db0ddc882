// Whether somebody who is said to run something runs tests.

/** A command that runs tests, at the beginning of a line or behind what joins commands. */
const TESTS = new RegExp(
  String.raw`(?:^runs |&& |; |\| )(?:\w+=\S* |sudo |time |npx |uv run |poetry run |bundle exec )*` +
    String.raw`(?:cargo (?:\+\S+ )?(?:test|t|nextest)|(?:npm|pnpm|yarn|bun|deno)(?: run)? test|(?:go|dotnet|swift|mix|zig|mvn|sbt|bazel|rake|make|just|task) (?:tests?|check)|` +
    String.raw`python3? -m (?:pytest|unittest)|(?:\S*\/)?(?:pytest|py\.test|jest|vitest|mocha|rspec|phpunit|ctest|tox|nox|test\.sh)|(?:\.\/)?gradlew? test|\.\/test)(?![\w.])`,
);

/** Of the line that tells what a session does now. */
export function runsTests(doing: string): boolean {
  return TESTS.test(doing.slice(0, 400));
}

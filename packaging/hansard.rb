# Homebrew takes the finished program from the archive of a release.
class Hansard < Formula
  # The folder that SHA256SUMS is in.
  BASE = @ADDRESS@

  desc "Record of every AI coding session on this machine"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  @ARCHIVES@

  def install
    bin.install "hansard"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/hansard.bash" => "hansard"
    zsh_completion.install "completions/_hansard"
    fish_completion.install "completions/hansard.fish"
  end

  test do
    system bin/"hansard", "--journal", testpath/"journal", "import", "--sample"
    assert_match "claude", shell_output("#{bin}/hansard --journal #{testpath}/journal sessions")
  end
end

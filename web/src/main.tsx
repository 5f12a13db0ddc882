// The page begins here.

import "./style/base.css";
import "./style/shell.css";
import "./style/centre.css";
import "./style/session.css";
import "./style/pages.css";
import { render } from "preact";
import { Shell } from "./parts/Shell";
import { watchApprovals } from "./state/approvals";
import { watchAttention } from "./state/attention";
import { watchBus } from "./state/bus";
import { startClock } from "./state/clock";
import { connect } from "./state/connection";
import { watchPlace } from "./state/place";
import { watchTheme } from "./state/preferences";
import { watchStatuses } from "./state/statuses";
import { watchUse } from "./state/tab";

watchTheme();
watchPlace();
startClock();
watchUse();
watchStatuses();
watchApprovals();
watchAttention();
watchBus();
connect();

const root = document.getElementById("app");
if (root) render(<Shell />, root);

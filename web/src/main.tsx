// The page begins here.

import "./style/base.css";
import "./style/shell.css";
import "./style/centre.css";
import "./style/session.css";
import "./style/pages.css";
import { render } from "preact";
import { Shell } from "./parts/Shell";
import { watchAttention } from "./state/attention";
import { watchBus } from "./state/bus";
import { startClock } from "./state/clock";
import { connect } from "./state/connection";
import { watchPlace } from "./state/place";
import { watchTheme } from "./state/preferences";
import { watchStatuses } from "./state/statuses";

watchTheme();
watchPlace();
startClock();
watchStatuses();
watchAttention();
watchBus();
connect();

const root = document.getElementById("app");
if (root) render(<Shell />, root);

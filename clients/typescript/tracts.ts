// What Hansard says on its bus. Made from crates/bus/src/registry.rs; not edited by hand.

export interface Tracts {
  cortex: {
    request: {
      agent_id: string;
      prompt: string;
      name?: string;
      provider?: string;
      model?: string;
      session_id?: string;
      chat_id?: string;
      facet?: string;
      day?: string;
      segment?: string;
      span?: string;
      output?: string;
      output_path?: string;
      refresh?: boolean;
      max_output_tokens?: number;
      thinking_budget?: number;
      schedule?: string;
      timeout_seconds?: number;
    };
    start: {
      agent_id: string;
      session_id: string;
      provider: string;
      name?: string;
      facet?: string;
      hosted: boolean;
      turn_id?: string;
      event_id: string;
      seq: number;
      position?: number;
      run_id: string;
      prompt: string;
      model?: string;
      chat_id?: string;
    };
    thinking: {
      agent_id: string;
      session_id: string;
      provider: string;
      name?: string;
      facet?: string;
      hosted: boolean;
      turn_id?: string;
      event_id: string;
      seq: number;
      position?: number;
      summary: string;
      model?: string;
    };
    tool_start: {
      agent_id: string;
      session_id: string;
      provider: string;
      name?: string;
      facet?: string;
      hosted: boolean;
      turn_id?: string;
      event_id: string;
      seq: number;
      position?: number;
      tool: string;
      args: Record<string, unknown>;
      call_id: string;
    };
    tool_end: {
      agent_id: string;
      session_id: string;
      provider: string;
      name?: string;
      facet?: string;
      hosted: boolean;
      turn_id?: string;
      event_id: string;
      seq: number;
      position?: number;
      tool: string;
      args?: Record<string, unknown>;
      call_id: string;
      result: string;
      ok: boolean;
    };
    agent_updated: {
      agent_id: string;
      session_id?: string;
      provider?: string;
      name?: string;
      facet?: string;
      hosted: boolean;
      turn_id?: string;
      event_id?: string;
      seq?: number;
      position?: number;
      agent?: string;
      status?: string;
      from?: string;
      reason?: string;
      confidence?: string;
      approval?: Record<string, unknown>;
      settings?: Record<string, unknown>;
    };
    finish: {
      agent_id: string;
      session_id?: string;
      provider?: string;
      name?: string;
      facet?: string;
      hosted: boolean;
      turn_id?: string;
      event_id?: string;
      seq?: number;
      position?: number;
      run_id?: string;
      result?: string;
      outcome: string;
      usage?: Record<string, unknown>;
      cost?: number;
      skipped?: string;
    };
    error: {
      agent_id: string;
      session_id?: string;
      provider?: string;
      name?: string;
      facet?: string;
      hosted: boolean;
      turn_id?: string;
      event_id?: string;
      seq?: number;
      position?: number;
      run_id?: string;
      error?: string;
      outcome: string;
      exit_code?: number;
      partial_text_tail?: string;
      trace?: string;
    };
    info: {
      agent_id: string;
      session_id: string;
      provider: string;
      name?: string;
      facet?: string;
      hosted: boolean;
      turn_id?: string;
      event_id: string;
      seq: number;
      position?: number;
      kind: string;
      message?: string;
      severity?: string;
    };
    status: {
      running_agents: number;
      agents: unknown[];
      idle?: boolean;
    };
  };
  observe: {
    observing: {
      day: string;
      segment: string;
      stream?: string;
      remote?: string;
      files: unknown[];
      meta?: Record<string, unknown>;
      by?: string;
    };
    detected: {
      day: string;
      segment: string;
      stream?: string;
      remote?: string;
      file: string;
      handler: string;
      ref: string;
      announced?: number;
      by?: string;
    };
    transcribed: {
      day: string;
      segment: string;
      stream: string;
      remote?: string;
      input: string;
      output: string;
      duration_ms: number;
      outcome: string;
      lines: number;
      redacted: number;
      vad_duration: number;
      vad_speech: number;
      noisy: boolean;
      by?: string;
    };
    described: {
      day: string;
      segment: string;
      stream: string;
      remote?: string;
      input: string;
      output: string;
      duration_ms: number;
      facts: number;
      by?: string;
    };
    observed: {
      day: string;
      segment: string;
      stream?: string;
      remote?: string;
      duration: number;
      files?: unknown[];
      announced?: number;
      batch?: boolean;
      error?: boolean;
      errors?: unknown[];
      by?: string;
    };
    status: {
      stream?: string;
      max_age_seconds?: number;
      idle?: boolean;
      [name: string]: unknown;
    };
  };
  importer: {
    started: {
      import_id: string;
      input_file?: string;
      file_type?: string;
      day?: string;
      facet?: string;
      setting?: string;
      options?: Record<string, unknown>;
      stage: string;
      stream?: string;
    };
    status: {
      import_id: string;
      stage: string;
      elapsed_ms: number;
      stage_elapsed_ms: number;
      items_processed?: number;
      items_total?: number;
      earliest_date?: string;
      latest_date?: string;
      source_type?: string;
      idle?: boolean;
    };
    completed: {
      import_id: string;
      stage: string;
      duration_ms: number;
      stages_run: unknown[];
      segments?: unknown[];
      stream?: string;
      total_files_created?: number;
      output_files?: unknown[];
      entries_written?: number;
      date_range?: unknown[];
    };
    error: {
      import_id: string;
      stage: string;
      error: string;
      duration_ms: number;
      partial_outputs?: unknown[];
    };
  };
  dream: {
    started: {
      mode: string;
      day: string;
      segment?: string;
      stream?: string;
      activity?: string;
      facet?: string;
      count: number;
      groups: number;
      again?: boolean;
      batch?: boolean;
    };
    completed: {
      mode: string;
      day: string;
      segment?: string;
      stream?: string;
      activity?: string;
      facet?: string;
      success: number;
      failed: number;
      failed_names?: unknown[];
      duration_ms: number;
      again?: boolean;
      batch?: boolean;
    };
  };
  activity: {
    live: {
      facet: string;
      day: string;
      segment: string;
      stream: string;
      id: string;
      activity: string;
      since: string;
      description: string;
      level: string;
      active_entities: unknown[];
      again?: boolean;
    };
    recorded: {
      facet: string;
      day: string;
      segment: string;
      stream: string;
      id: string;
      activity: string;
      segments: unknown[];
      level_avg: number;
      description: string;
      active_entities: unknown[];
      again?: boolean;
      batch?: boolean;
    };
  };
  supervisor: {
    request: {
      cmd: unknown[];
      ref?: string;
      day?: string;
      timeout_seconds?: number;
      if_busy?: string;
      after_crash?: string;
    };
    cancel: {
      ref: string;
    };
    restart: {
      service: string;
    };
    reload: {
      ref?: string;
    };
    reloaded: {
      ref?: string;
      error?: string;
    };
    started: {
      service: string;
      pid: number;
      ref: string;
    };
    restarting: {
      service: string;
      pid: number;
      ref: string;
    };
    stopped: {
      service: string;
      pid: number;
      ref: string;
      exit_code: number;
      reason?: string;
      error?: string;
    };
    queue: {
      command: string;
      running?: string;
      queued: number;
      queue: unknown[];
    };
    skipped: {
      service: string;
      ref: string;
      active_ref?: string;
      cmd: unknown[];
      reason: string;
    };
    status: {
      services: unknown[];
      crashed: unknown[];
      tasks: unknown[];
      queues: Record<string, unknown>;
      stale_heartbeats: unknown[];
      schedules: unknown[];
      callosum_clients: number;
      parts: unknown[];
      disk: string;
      faults?: unknown[];
      ignored?: number;
    };
  };
  logs: {
    exec: {
      ref: string;
      name: string;
      pid: number;
      cmd: unknown[];
      log_path: string;
    };
    line: {
      ref: string;
      name: string;
      pid: number;
      stream: string;
      line: string;
      part?: number;
    };
    exit: {
      ref: string;
      name: string;
      pid: number;
      cmd: unknown[];
      log_path: string;
      exit_code: number;
      duration_ms: number;
      lines: number;
      bytes: number;
      unwritten?: number;
      untold?: number;
    };
  };
  notification: {
    [event: string]: {
      title?: string;
      message: string;
      icon?: string;
      action?: string;
      facet?: string;
      autoDismiss?: number;
      app?: string;
      badge?: string;
      dismissible?: boolean;
    };
  };
  navigate: {
    request: {
      path?: string;
      facet?: string;
    };
  };
  callosum: {
    subscribe: {
      tracts?: unknown[];
      events?: unknown[];
      fields?: Record<string, unknown>;
      from?: string;
      echo?: boolean;
      name?: string;
    };
    subscribed: {
      server: string;
      version: string;
      position?: number;
    };
    unsubscribe: {
    };
    stats: {
    };
    lagged: {
      dropped: number;
      by: Record<string, unknown>;
      since?: number;
      until?: number;
      position?: number;
      lifecycle_lost?: number;
    };
    caught_up: {
      position: number;
    };
    refused: {
      reason: string;
    };
  };
  journal: {
    [event: string]: {
      event: Record<string, unknown>;
    };
  };
}
